package main

import "testing"

func TestFaultV6(t *testing.T)  { tell(t, "v6") }
func TestFaultV14(t *testing.T) { tell(t, "v14") }
func TestFaultU13(t *testing.T) { tell(t, "u13") }
func TestFaultU14(t *testing.T) { tell(t, "u14") }

func TestFaultV8(t *testing.T) { tell(t, "v8") }
