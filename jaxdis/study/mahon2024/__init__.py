"""The study of Mahon et al. 2024: its trainings, its tables and its figures."""
