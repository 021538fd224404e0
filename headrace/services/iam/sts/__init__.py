"""STS: sessions, federation, MFA."""
