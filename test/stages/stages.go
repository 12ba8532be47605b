// Package stages runs the checks of the repository in stages. Some stages run for every change, and the others take
// turns. stages.yaml lists them.
package stages

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/test/internal/modules"
)

// Stage is one check.
type Stage struct {
	// Name identifies the stage in output and in records.
	Name string `json:"name"`
	// Run is the shell command of the stage. It runs at the root of the repository.
	Run string `json:"run,omitempty"`
	// E2E is the label filter of the end-to-end specs that the stage runs instead of a command. All such stages of one run
	// share an installation.
	E2E string `json:"e2e,omitempty"`
	// Each is a role of modules in versions.yaml. The stage is repeated for each module with this role. $module in the
	// name and in the command stands for the module. If Each is empty, the stage is not repeated.
	Each string `json:"each,omitempty"`
	// Seconds is the approximate duration of the stage on 2 cores. It is used to divide stages into turns of similar
	// length.
	Seconds int `json:"seconds,omitempty"`
}

// List is the content of stages.yaml.
type List struct {
	// Always lists the stages of each run, in this order.
	Always []Stage `json:"always"`
	// TurnSeconds limits the duration of a turn of commands, and E2ETurnSeconds the duration of a turn of end-to-end
	// specs.
	TurnSeconds    int `json:"turnSeconds"`
	E2ETurnSeconds int `json:"e2eTurnSeconds"`
	// InTurn lists the stages that take turns. Each run takes one turn of commands and one of end-to-end specs.
	InTurn []Stage `json:"inTurn"`
	// Exhaustive lists stages that take too long for a turn. They run only with all stages, or after they have failed.
	Exhaustive []Stage `json:"exhaustive"`
}

// Read reads a list from a file, and repeats stages for the modules of their role. It returns an error if the name of a
// stage is empty or not unique, or if a stage does not have either a command or a filter.
func Read(file string, registry modules.File) (List, error) {
	var list List
	content, err := os.ReadFile(file)
	if err != nil {
		return list, err
	}
	if err := yaml.UnmarshalStrict(content, &list); err != nil {
		return list, fmt.Errorf("reading %s: %w", file, err)
	}
	for _, stages := range []*[]Stage{&list.Always, &list.InTurn, &list.Exhaustive} {
		*stages = each(*stages, registry)
	}
	var errs []error
	names := map[string]bool{}
	for _, s := range list.All() {
		switch {
		case s.Name == "" || names[s.Name] || strings.ContainsAny(s.Name, "/\n"):
			errs = append(errs, fmt.Errorf("%s: the name %q is empty, not unique, or contains a slash or a line break",
				file, s.Name))
		case (s.Run == "") == (s.E2E == ""):
			errs = append(errs, fmt.Errorf("%s: stage %q needs either run or e2e", file, s.Name))
		}
		names[s.Name] = true
	}
	for _, s := range list.InTurn {
		if s.Seconds <= 0 {
			errs = append(errs, fmt.Errorf("%s: stage %q takes turns and needs seconds", file, s.Name))
		}
	}
	return list, errors.Join(errs...)
}

// each replaces every stage that has a role with one stage for each module of the role.
func each(stages []Stage, registry modules.File) []Stage {
	var all []Stage
	for _, s := range stages {
		if s.Each == "" {
			all = append(all, s)
			continue
		}
		for _, module := range registry.Names(s.Each) {
			of := strings.NewReplacer("$module", module)
			all = append(all, Stage{Name: of.Replace(s.Name), Run: of.Replace(s.Run), Seconds: s.Seconds})
		}
	}
	return all
}

// All returns all stages. The stages of each run come first.
func (l List) All() []Stage { return slices.Concat(l.Always, l.InTurn, l.Exhaustive) }

// Due returns the stages of a run: the stages of each run, other stages that have failed and not passed since, and the
// turns that the tree selects. The tree is the hexadecimal hash of all files, so the same tree gets the same turns on
// every machine. Commands come before end-to-end specs.
func (l List) Due(tree string, failed func(name string) bool) ([]Stage, error) {
	hash, err := hex.DecodeString(tree)
	if err != nil || len(hash) < 16 {
		return nil, fmt.Errorf("%q is not the hash of a tree", tree)
	}
	var commands, specs []Stage
	for _, s := range l.InTurn {
		if s.E2E == "" {
			commands = append(commands, s)
		} else {
			specs = append(specs, s)
		}
	}
	// The two turns use different bytes of the hash, so that all combinations of turns occur.
	selected := slices.Concat(
		pick(turns(commands, l.TurnSeconds), binary.BigEndian.Uint64(hash[:8])),
		pick(turns(specs, l.E2ETurnSeconds), binary.BigEndian.Uint64(hash[8:16])))
	due := slices.Clone(l.Always)
	for _, s := range slices.Concat(l.InTurn, l.Exhaustive) {
		if failed(s.Name) || slices.Contains(selected, s) {
			due = append(due, s)
		}
	}
	slices.SortStableFunc(due, func(a, b Stage) int { return rank(a) - rank(b) })
	return due, nil
}

func rank(s Stage) int {
	if s.E2E == "" {
		return 0
	}
	return 1
}

// turns divides stages, in order, into turns. A turn takes at most the given number of seconds, or is a single stage.
func turns(stages []Stage, seconds int) [][]Stage {
	var all [][]Stage
	taken := 0
	for _, s := range stages {
		if len(all) == 0 || taken+s.Seconds > seconds {
			all = append(all, nil)
			taken = 0
		}
		all[len(all)-1] = append(all[len(all)-1], s)
		taken += s.Seconds
	}
	return all
}

func pick(turns [][]Stage, hash uint64) []Stage {
	if len(turns) == 0 {
		return nil
	}
	return turns[hash%uint64(len(turns))]
}

// Filter returns the label filter that selects the end-to-end specs of the stages.
func Filter(stages []Stage) string {
	var filters []string
	for _, s := range stages {
		filters = append(filters, "("+s.E2E+")")
	}
	return strings.Join(filters, " || ")
}
