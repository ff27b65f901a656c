"""From a sanitizer's report to its explanation."""
