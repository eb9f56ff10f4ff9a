"""The report: one HTML page that shows what a model did with some sentences."""
