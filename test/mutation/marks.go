package mutation

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// mark explains why no test can distinguish a mutant from the original. It is above the line that the mutant changes:
//
//	//equivalent:boundary of n > limit => at the limit both return the same
//	if n > limit {
type mark struct {
	path string
	// at is the line of the mark, and line the line of the mutant.
	at, line int
	// change is the change of the mutant.
	change string
}

const markPrefix = "//equivalent:"

var markForm = regexp.MustCompile(`^\s*` + markPrefix + `(\S.*?) => (\S.*)$`)

// marksOf returns the marks of a file. It returns an error for a mark without a change or a reason.
func marksOf(path, source string) ([]mark, error) {
	var marks []mark
	pending := 0 // number of marks since the last line of code
	for i, line := range strings.Split(source, "\n") {
		code := strings.TrimSpace(line)
		if !strings.HasPrefix(code, markPrefix) {
			if !strings.HasPrefix(code, "//") {
				for j := range marks[len(marks)-pending:] {
					marks[len(marks)-pending+j].line = i + 1
				}
				pending = 0
			}
			continue
		}
		match := markForm.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("%s:%d: a mark must have the form %schange => reason", path, i+1, markPrefix)
		}
		marks = append(marks, mark{path: path, at: i + 1, change: match[1]})
		pending++
	}
	return marks, nil
}

// explain returns the survivors that no mark explains, and the number of the others. It returns an error for a mark
// that explains no survivor: a test detects the mutant, or there is no such mutant.
func explain(survivors []Mutant, marks []mark) (left []Mutant, explained int, err error) {
	byMark := map[mark]bool{}
	for _, m := range survivors {
		isExplained := false
		for _, k := range marks {
			if k.path == m.File && k.line == m.Line && k.change == m.Change {
				byMark[k], isExplained = true, true
			}
		}
		if isExplained {
			explained++
		} else {
			left = append(left, m)
		}
	}
	var errs []error
	for _, k := range marks {
		if !byMark[k] {
			errs = append(errs, fmt.Errorf("%s:%d: no mutant of line %d survives %q: remove the mark, or correct it",
				k.path, k.at, k.line, k.change))
		}
	}
	return left, explained, errors.Join(errs...)
}
