# SPDX-License-Identifier: MIT
"""The messages of mnemon/v1/models.proto."""

from mnemon import descriptors

descriptors.fill_module(globals(), "mnemon/v1/models.proto")
