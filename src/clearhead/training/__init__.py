"""One trainer for every task; it never mentions a token."""
