"""The worst single outlier."""
