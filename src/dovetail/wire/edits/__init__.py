"""What came and went with each revision, as tables, and the sieve made of them (`plans`)."""
