package clients

import (
	"fmt"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// A Question is a question that a VS Code file has for its user.
type Question struct {
	ID          string
	Description string
	Password    bool     // the answer must not be seen
	Options     []string // if not empty, the answer is one of them
	Default     *string  // nil: there is none
	Pos         tree.Pos
}

// Variable is the name of the variable that answers the input where nobody is
// asked.
func (i Question) Variable() string {
	return "EVERLINE_INPUT_" + strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z':
			return c - 'a' + 'A'
		case 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return c
		default:
			return '_'
		}
	}, i.ID)
}

// vscodeServers also takes note of the questions of the file.
func vscodeServers(r *File, root *tree.Node) []*tree.Node {
	r.inputs = map[string]Question{}
	if list := root.Get("inputs"); list != nil {
		for _, n := range list.List {
			if in := r.declared(n); in.ID != "" {
				r.inputs[in.ID] = in
			}
		}
	}
	if r.sandbox = root.Get("sandbox"); r.sandbox == nil {
		r.sandbox = &tree.Node{}
	}
	return underKeys("servers")(r, root)
}

// declared reads one question. What is not as it should be is left out of it: the
// place that refers to it says then what is missing.
func (r *File) declared(n *tree.Node) Question {
	in := Question{Pos: n.Pos}
	text := func(name string) *string {
		if v := n.Get(name); v != nil && v.Kind == tree.String {
			return &v.Text
		}
		return nil
	}
	if id := text("id"); id != nil {
		in.ID = *id
	}
	if d := text("description"); d != nil {
		in.Description = *d
	}
	in.Default = text("default")
	if p := n.Get("password"); p != nil {
		in.Password = p.Kind == tree.Bool && p.Text == "true"
	}
	if o := n.Get("options"); o != nil {
		for _, option := range o.List {
			if option.Kind == tree.Object { // {"label", "value"}
				option = option.Get("value")
			}
			if option != nil && option.Kind == tree.String {
				in.Options = append(in.Options, option.Text)
			}
		}
	}
	return in
}

// input resolves ${input:id}: by the variable, by asking, by the default.
func (r *File) input(id string) (reference, error) {
	in, declared := r.inputs[id]
	if !declared {
		in.ID = id
	}
	name := in.Variable()
	if r.Keep && in.Default != nil {
		return reference{value: expand.Keep(name + ":-" + *in.Default), known: true}, nil
	}
	if v, ok := r.Env(name); ok {
		return reference{value: v, known: true}, nil
	}
	if declared && r.Ask != nil {
		if v, ok := r.Ask(in); ok {
			return reference{value: expand.Cleaned(v), known: true}, nil
		}
	}
	if in.Default != nil {
		return reference{value: *in.Default, known: true}, nil
	}
	about := "nothing in the file declares this input"
	if declared {
		about = "the file asks for it"
		if in.Description != "" {
			about += ": " + in.Description
		}
	}
	return reference{}, fmt.Errorf("the variable %s, which answers the input %q, is not set (%s)", name, id, about)
}
