package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func testEnv(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "s3cret-token", "EMPTY": ""}[name]
	return v, ok
}

// TestGolden reads every file of testdata/golden and compares what came of it
// with the file of the same name and ".golden": errors, warnings, and of each
// server what is not a default.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		ext := filepath.Ext(file)
		if ext == ".golden" || ext == ".txt" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := render(config.Parse(filepath.ToSlash(file), data, testEnv))
			if *rewrite {
				if err := os.WriteFile(file+".golden", got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func render(c *config.Config, err error) []byte {
	var b bytes.Buffer
	if err != nil {
		var f *fault.Fault
		if !errors.As(err, &f) {
			fmt.Fprintf(&b, "not a fault: %v\n", err)
			return b.Bytes()
		}
		fmt.Fprintf(&b, "error %s: %v\n  remedy: %s\n", f.Kind, f, f.Remedy)
		return b.Bytes()
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	bare := *c
	bare.Servers, bare.Warnings = nil, nil
	fmt.Fprintf(&b, "config\n")
	differences(&b, reflect.ValueOf(bare), reflect.ValueOf(*config.New()), "")
	for _, s := range c.Servers {
		fmt.Fprintf(&b, "server %q at %s\n", s.Name, s.Origin)
		if s.Err != nil {
			fmt.Fprintf(&b, "  error %s: %v\n  remedy: %s\n", s.Err.Kind, s.Err, s.Err.Remedy)
		}
		s.Origin, s.Err = config.Origin{}, nil
		usual := config.NewServer(s.Name)
		usual.Retry.MaxDelay = config.Server{Transport: s.Transport}.Defaults().Retry.MaxDelay
		differences(&b, reflect.ValueOf(s), reflect.ValueOf(usual), "")
	}
	return b.Bytes()
}

func differences(b *bytes.Buffer, v, standard reflect.Value, path string) {
	for i := range v.NumField() {
		f, name := v.Type().Field(i), path+v.Type().Field(i).Name
		if !f.IsExported() {
			continue
		}
		value, was := v.Field(i), standard.Field(i)
		switch {
		case f.Type.Kind() == reflect.Struct:
			differences(b, value, was, name+".")
		case !reflect.DeepEqual(value.Interface(), was.Interface()):
			fmt.Fprintf(b, "  %s: %s\n", name, strings.TrimSpace(fmt.Sprintf("%+v", value.Interface())))
		}
	}
}
