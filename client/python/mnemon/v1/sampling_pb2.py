# SPDX-License-Identifier: MIT
"""The messages of mnemon/v1/sampling.proto."""

from typing import TYPE_CHECKING, Any

from mnemon import descriptors

descriptors.fill_module(globals(), "mnemon/v1/sampling.proto")

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
