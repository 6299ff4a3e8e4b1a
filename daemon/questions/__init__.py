"""Questions: filters, times, and plain English that is read into them; shared by search, rules and digest."""
