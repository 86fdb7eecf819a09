"""Many runs side by side: frames, charts, the write-up's claims, and the report of a study."""
