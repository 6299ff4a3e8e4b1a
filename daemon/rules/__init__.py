"""Rules in words: read by the grammar of questions, and evaluated over records, live and on the past."""
