"""Full-zip pages: one record for each slot."""
