"""What is told and what is not: nothing twice, and no flood."""
