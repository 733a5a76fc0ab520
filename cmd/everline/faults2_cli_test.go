package main

import "testing"

func TestFaultU20(t *testing.T) { tell(t, "u20") }

func TestFaultU19(t *testing.T) { tell(t, "u19") }
