// Package stages runs the checks of the repository in stages. Some stages run for every change. Other stages take
// turns within a time limit. First come the stages that test a file of the change, and the stages that are pending
// from earlier changes. Then come stages that the hash of the files selects. Stages that take very long only run on
// request, or after they have failed. stages.yaml lists the stages, and the files that each of them tests.
package stages

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/test/internal/modules"
)

// Stage is one check.
type Stage struct {
	// Name identifies the stage in output and in records.
	Name string `json:"name"`
	// Run is the shell command of the stage. It runs at the root of the repository.
	Run string `json:"run,omitempty"`
	// E2E is the label filter of the end-to-end specs that the stage runs instead of a command. All such stages of one
	// run share an installation.
	E2E string `json:"e2e,omitempty"`
	// Each is a role of modules in versions.yaml. The stage is repeated for each module with this role. $module in the
	// name and in the command stands for the module. If Each is empty, the stage is not repeated.
	Each string `json:"each,omitempty"`
	// Seconds is the approximate duration of the stage on 2 cores. It decides whether the stage fits into a run.
	Seconds int `json:"seconds,omitempty"`
}

// List is the content of stages.yaml.
type List struct {
	// Always lists the stages of each run, in this order.
	Always []Stage `json:"always"`
	// TurnSeconds is the time for stages of InTurn in one run.
	TurnSeconds int `json:"turnSeconds"`
	// LimitSeconds is the time for a whole run. If a run takes longer than usual, optional stages that would exceed the
	// limit are left for later runs. Due.IsOptional defines which stages are optional. 0 means no limit.
	LimitSeconds int `json:"limitSeconds"`
	// InTurn lists the stages that do not run with every change. Such a stage runs if a change touches a file that the
	// stage tests, or when its turn comes.
	InTurn []Stage `json:"inTurn"`
	// Exhaustive lists stages that take too long for a change. They run only in a run of all stages, or after they have
	// failed.
	Exhaustive []Stage `json:"exhaustive"`
	// Areas lists the parts of the repository. A file can belong to several of them.
	Areas []Area `json:"areas"`
}

// Read reads a list from a file, and repeats stages and areas for the modules of their role. Each name must be unique
// and not empty, each stage must have either a command or a filter, and each stage of InTurn must have a duration.
// Patterns of areas must be valid, and a pattern of stages must match a stage of InTurn. Otherwise, Read returns an
// error.
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
	list.Areas = each(list.Areas, registry)
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
	areas := map[string]bool{}
	for _, a := range list.Areas {
		if a.Name == "" || areas[a.Name] {
			errs = append(errs, fmt.Errorf("%s: the name %q of an area is empty or not unique", file, a.Name))
		}
		areas[a.Name] = true
		for _, pattern := range slices.Concat(a.Paths, a.Stages) {
			if _, err := path.Match(pattern, ""); err != nil {
				errs = append(errs, fmt.Errorf("%s: area %q: the pattern %q is invalid", file, a.Name, pattern))
			}
		}
		for _, pattern := range a.Stages {
			if !slices.ContainsFunc(list.InTurn, func(s Stage) bool { return matches([]string{pattern}, s.Name) }) {
				errs = append(errs, fmt.Errorf("%s: area %q: no stage takes turns with the name %q", file, a.Name, pattern))
			}
		}
	}
	return list, errors.Join(errs...)
}

// repeated is a stage or an area that can be repeated for modules.
type repeated[T any] interface {
	// role returns the role of the modules, or an empty text.
	role() string
	// replace returns the stage or area of one module.
	replace(module *strings.Replacer) T
}

func (s Stage) role() string { return s.Each }

func (s Stage) replace(module *strings.Replacer) Stage {
	return Stage{
		Name: module.Replace(s.Name), Run: module.Replace(s.Run), E2E: module.Replace(s.E2E), Seconds: s.Seconds,
	}
}

// each repeats every stage or area that has a role, once for each module of the role. It keeps all others as they
// are.
func each[T repeated[T]](items []T, registry modules.File) []T {
	var all []T
	for _, item := range items {
		if item.role() == "" {
			all = append(all, item)
			continue
		}
		for _, module := range registry.Names(item.role()) {
			all = append(all, item.replace(strings.NewReplacer("$module", module)))
		}
	}
	return all
}

// All returns all stages. The stages of each run come first.
func (l List) All() []Stage { return slices.Concat(l.Always, l.InTurn, l.Exhaustive) }

// stage returns the stage of InTurn with a name, and whether there is such a stage.
func (l List) stage(name string) (Stage, bool) {
	i := slices.IndexFunc(l.InTurn, func(s Stage) bool { return s.Name == name })
	if i < 0 {
		return Stage{}, false
	}
	return l.InTurn[i], true
}

// Due is a stage of a run.
type Due struct {
	Stage
	// Why is the reason why the stage runs. The name of the stage and Why form a sentence.
	Why string
	// IsOptional is true if the stage can be left for a later run, because this run would exceed List.LimitSeconds.
	IsOptional bool
}

// Reasons why a stage runs.
const (
	runsAlways = "runs with every change"
	hasFailed  = "has failed on this machine and not passed since"
	isTouched  = "tests what the change touches"
	isPending  = "tests what an earlier change touched"
	isSelected = "is selected by the hash of the files"
)

// Due returns the stages of a run: the stages of Always, stages that have failed and not passed since, and touched
// and remembered stages (see Pending.Next). The first touched stage and the first remembered stage are always due,
// and the others if there is time for them. If time is left, the hash of all files selects more stages of InTurn. The
// hash also selects which remembered stage is the first. So the same files get the same stages when they are
// committed again. Commands come before end-to-end specs.
func (l List) Due(tree Tree, pending Pending, records Records) ([]Due, error) {
	hash, err := hex.DecodeString(tree.Hash)
	if err != nil || len(hash) < 8 {
		return nil, fmt.Errorf("%q is not the hash of a tree", tree.Hash)
	}
	var due []Due
	left := l.TurnSeconds
	add := func(s Stage, why string, evenIfItDoesNotFit bool) {
		isDue := slices.ContainsFunc(due, func(d Due) bool { return d.Name == s.Name })
		if !isDue && (evenIfItDoesNotFit || s.Seconds <= left) {
			isOptional := !evenIfItDoesNotFit || why == isPending && len(due) > 0
			due = append(due, Due{s, why, isOptional})
			left -= s.Seconds
		}
	}
	touched, remembered := pending.Next(l, tree, records)
	remembered = fromAnywhere(remembered, hash)
	for i := range max(len(touched), len(remembered)) { // the stages of both lists are added alternately
		if i < len(touched) {
			add(touched[i], isTouched, i == 0)
		}
		if i < len(remembered) {
			add(remembered[i], isPending, i == 0)
		}
	}
	for _, s := range fromAnywhere(l.InTurn, hash) {
		add(s, isSelected, len(due) == 0)
	}
	for _, s := range slices.Concat(l.InTurn, l.Exhaustive) {
		if records.Failed(s.Name) {
			add(s, hasFailed, true)
		}
	}
	for _, s := range l.Always {
		add(s, runsAlways, true)
	}
	order := map[string]int{}
	for i, s := range l.All() {
		order[s.Name] = i
		if s.E2E != "" {
			order[s.Name] += len(l.All())
		}
	}
	slices.SortFunc(due, func(a, b Due) int { return order[a.Name] - order[b.Name] })
	return due, nil
}

// fromAnywhere returns the stages in their order, but rotated, so that they begin with a stage that the hash selects.
// Otherwise, all runs on machines without records of earlier runs would begin with the same stage.
func fromAnywhere(stages []Stage, hash []byte) []Stage {
	if len(stages) == 0 {
		return nil
	}
	first := binary.BigEndian.Uint64(hash[:8]) % uint64(len(stages))
	return slices.Concat(stages[first:], stages[:first])
}

// fitting returns the stages of a group that fit into the rest of a run, and those that are left for later runs. The
// parameter elapsed is how long the run has taken so far. Stages that are not optional always run, so fitting
// reserves time for all such stages of this group and of the following groups.
func (l List) fitting(
	group []Stage, following [][]Stage, isOptional map[string]bool, elapsed time.Duration,
) (fit, left []Stage) {
	seconds := int(elapsed.Seconds())
	for _, s := range slices.Concat(append(slices.Clone(following), group)...) {
		if !isOptional[s.Name] {
			seconds += s.Seconds
		}
	}
	for _, s := range group {
		switch {
		case !isOptional[s.Name]:
			fit = append(fit, s)
		case l.LimitSeconds == 0 || seconds+s.Seconds <= l.LimitSeconds:
			fit = append(fit, s)
			seconds += s.Seconds
		default:
			left = append(left, s)
		}
	}
	return fit, left
}

// Filter returns the label filter that selects the end-to-end specs of the stages.
func Filter(stages []Stage) string {
	var filters []string
	for _, s := range stages {
		filters = append(filters, "("+s.E2E+")")
	}
	return strings.Join(filters, " || ")
}
