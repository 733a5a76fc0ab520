package catalog

import "github.com/everline/everline/internal/visible"

// Visible is visible.Text, in which nothing of a definition hides.
func Visible(s string) string { return visible.Text(s) }
