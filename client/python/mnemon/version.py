# SPDX-License-Identifier: MIT
"""The release that this client belongs to: that of the whole project."""

__version__ = "0.1.0"
