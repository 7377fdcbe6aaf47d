"""The stages beside other libraries."""
