package main

import "testing"

func TestFaultU20(t *testing.T) { tell(t, "u20") }
