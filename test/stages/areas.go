package stages

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Area is a part of the repository, with the stages that test it.
type Area struct {
	// Name identifies the area in pending.yaml.
	Name string `json:"name"`
	// Paths are files and folders, relative to the root of the repository. They can be patterns of path.Match.
	Paths []string `json:"paths"`
	// Stages are the names of the stages that test the area. They can be patterns of path.Match.
	Stages []string `json:"stages"`
	// Each is a role of modules in versions.yaml. The area is repeated for each module with this role. $module stands
	// for the module. If Each is empty, the area is not repeated.
	Each string `json:"each,omitempty"`
}

// role and replace implement the interface repeated.
func (a Area) role() string { return a.Each }

func (a Area) replace(module *strings.Replacer) Area {
	replaceAll := func(texts []string) []string {
		replaced := make([]string, len(texts))
		for i, text := range texts {
			replaced[i] = module.Replace(text)
		}
		return replaced
	}
	return Area{Name: module.Replace(a.Name), Paths: replaceAll(a.Paths), Stages: replaceAll(a.Stages)}
}

// Has reports whether a file belongs to the area: one of the paths must match the file or a folder above it.
func (a Area) Has(file string) bool {
	for ; file != "."; file = path.Dir(file) {
		if matches(a.Paths, file) {
			return true
		}
	}
	return false
}

// IsTestedBy reports whether a stage tests the area.
func (a Area) IsTestedBy(stage string) bool { return matches(a.Stages, stage) }

// matches reports whether a name matches one of the patterns. Read has checked their syntax.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, _ := path.Match(pattern, name)
		return matched
	})
}

// testedBy returns a function that reports whether a stage tests a file. Stages that are not in InTurn test all
// files.
func (l List) testedBy(stage string) func(file string) bool {
	if _, takesTurns := l.stage(stage); !takesTurns {
		return func(string) bool { return true }
	}
	areas := slices.DeleteFunc(slices.Clone(l.Areas), func(a Area) bool { return !a.IsTestedBy(stage) })
	return func(file string) bool {
		return slices.ContainsFunc(areas, func(a Area) bool { return a.Has(file) })
	}
}

// Tests reports whether a stage tests a file.
func (l List) Tests(stage, file string) bool { return l.testedBy(stage)(file) }

// digests returns a digest of the files of each area that has stages.
func (l List) digests(tree Tree) map[string]string {
	digests := map[string]string{}
	for _, area := range l.Areas {
		if len(area.Stages) > 0 {
			digests[area.Name] = tree.digest(area.Has, "")
		}
	}
	return digests
}

// digestFor returns a digest of a stage and of the files that it tests.
func (l List) digestFor(s Stage, tree Tree) string {
	return tree.digest(l.testedBy(s.Name), s.Run+s.E2E)
}

// touched returns the stages of InTurn that test an area whose digest has changed. If only few stages test a changed
// area, these stages come first, because the change is probably about that area and not about an area that many
// stages test.
func (l List) touched(before, now map[string]string) []Stage {
	// narrowest has, for each stage, the number of stages that test a changed area of this stage. If several such areas
	// have changed, the lowest number counts.
	narrowest := map[string]int{}
	for _, area := range l.Areas {
		if before[area.Name] == now[area.Name] {
			continue
		}
		tests := slices.DeleteFunc(slices.Clone(l.InTurn), func(s Stage) bool { return !area.IsTestedBy(s.Name) })
		for _, s := range tests {
			if narrowest[s.Name] == 0 || len(tests) < narrowest[s.Name] {
				narrowest[s.Name] = len(tests)
			}
		}
	}
	touched := slices.DeleteFunc(slices.Clone(l.InTurn), func(s Stage) bool { return narrowest[s.Name] == 0 })
	slices.SortStableFunc(touched, func(a, b Stage) int { return cmp.Compare(narrowest[a.Name], narrowest[b.Name]) })
	return touched
}
