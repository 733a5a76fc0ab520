package main

import "testing"

func TestFaultS6(t *testing.T)  { tell(t, "s6") }
func TestFaultU9(t *testing.T)  { tell(t, "u9") }
func TestFaultU10(t *testing.T) { tell(t, "u10") }
func TestFaultU17(t *testing.T) { tell(t, "u17") }
func TestFaultV13(t *testing.T) { tell(t, "v13") }
func TestFaultV15(t *testing.T) { tell(t, "v15") }
