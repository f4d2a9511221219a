"""The measurements, one module each. Each adds its figures to `Figures`."""
