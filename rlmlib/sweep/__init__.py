"""Many runs from one file: resolved and checked whole, planned, run one process each, told truly, resumed."""
