"""What is measured, one module per question. Each adds its figures to `Figures`."""
