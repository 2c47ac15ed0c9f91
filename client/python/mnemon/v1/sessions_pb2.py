# SPDX-License-Identifier: MIT
"""The messages of mnemon/v1/sessions.proto."""

from mnemon import descriptors

descriptors.fill_module(globals(), "mnemon/v1/sessions.proto")
