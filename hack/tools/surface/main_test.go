package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const source = `package zoo

import "fmt"

const (
	Legs = 4
	eyes = 2
)

var Keeper, helper string

type Animal struct {
	fmt.Stringer

	Name, Kind string
	Mass       Weight "json:\"weight\""
	age        int
}

type Feeder[A any] interface {
	fmt.Stringer

	Feed(
		animal A, hay int,
	) error
}

type Weight int

type Mass = Weight

type cage struct{ Open bool }

func New(name string) *Animal { return nil }

func (a *Animal) Rename(name string) {}

func (a *Animal) sleep() {}

func (c cage) Close() {}

func helpers() {}
`

func TestTheListHasEachExportedName(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("zoo.go", source)
	write("zoo_test.go", "package zoo\n\nfunc Fake() {}\n")
	output := filepath.Join(root, "exported.txt")
	if err := run(output, []string{root}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"const Legs = 4",
		"field Animal.Kind string",
		`field Animal.Mass Weight "json:\"weight\""`,
		"field Animal.Name string",
		"field Animal: fmt.Stringer",
		"func New(name string) *Animal",
		"method (*Animal) Rename(name string)",
		"method of Feeder.Feed func(animal A, hay int) error",
		"method of Feeder: fmt.Stringer",
		"type Animal struct",
		"type Feeder[A any] interface",
		"type Mass = Weight",
		"type Weight int",
		"var Keeper string",
	}
	_, listed, _ := strings.Cut(string(content), root+"\n")
	if diff := cmp.Diff("\t"+strings.Join(want, "\n\t")+"\n", listed); diff != "" {
		t.Errorf("unexpected list (-want +got):\n%s", diff)
	}
}

func TestTheListCanBeLimitedToTypes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "zoo.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := surfaceOf(root, "Weight,Feeder")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"method of Feeder.Feed func(animal A, hay int) error", "method of Feeder: fmt.Stringer",
		"type Feeder[A any] interface", "type Weight int",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected list (-want +got):\n%s", diff)
	}
}

func TestAFolderWithoutGoFilesIsAnError(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := run(filepath.Join(root, "exported.txt"), []string{root}); err == nil ||
		!strings.Contains(err.Error(), "has no Go files") {
		t.Errorf("got the error %v", err)
	}
}
