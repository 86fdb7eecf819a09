"""Public data in the formats that it comes in, and what is wrong with it."""
