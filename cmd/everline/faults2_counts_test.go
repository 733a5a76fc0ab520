package main

import "testing"

func TestFaultU7(t *testing.T) { tell(t, "u7") }
