// Package document reads the commands of documents, and compares their output with the output that the documents show.
package document

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Step is a command of a document, with the lines of output that the document shows.
type Step struct {
	Command string
	Prints  []string
}

// Steps returns the commands in the console blocks of a section of a file, in order. It returns an error if there is
// no command.
func Steps(file, section string) ([]Step, error) {
	steps, err := read(file, section)
	if err == nil && len(steps) == 0 {
		err = fmt.Errorf("%s shows no command in section %q", file, section)
	}
	return steps, err
}

// All returns the commands in all console blocks of a file. It returns no error if there is no command.
func All(file string) ([]Step, error) { return read(file, "") }

// read returns the commands of the named section of a file. If the name is empty, it returns the commands of the whole
// file.
func read(file, section string) ([]Step, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	steps, err := stepsOf(string(content), section)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return steps, nil
}

// stepsOf returns the commands in the console blocks of the named section, or of the whole document if the name is
// empty. Lines that begin with "$ " are commands. A backslash at the end of a line continues the command, and "<<EOF"
// continues it up to the line "EOF". All other lines are the output of the command before them in the same block.
func stepsOf(document, section string) ([]Step, error) {
	var steps []Step
	before := 0 // the number of commands before the block
	inSection, inBlock, continued, inInput := section == "", false, false, false
	for line := range strings.Lines(document) {
		line = strings.TrimRight(line, "\n")
		switch {
		case inInput:
			steps[len(steps)-1].Command += "\n" + line
			inInput = line != "EOF"
		case !inBlock && strings.HasPrefix(line, "## "):
			inSection = section == "" || line == "## "+section
		case inSection && line == "```console":
			inBlock, before = true, len(steps)
		case line == "```":
			inBlock = false
		case !inBlock || !inSection:
		case continued:
			steps[len(steps)-1].Command += "\n" + line
			continued = strings.HasSuffix(line, `\`)
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, Step{Command: line[2:]})
			continued = strings.HasSuffix(line, `\`)
			inInput = strings.HasSuffix(line, " <<EOF")
		case len(steps) == before:
			return nil, fmt.Errorf("the line %q in section %q is the output of no command", line, section)
		default:
			last := &steps[len(steps)-1]
			last.Prints = append(last.Prints, line)
		}
	}
	return steps, nil
}

// OnlyReads reports whether the command only reads objects. A user might have to repeat such a command until it
// prints the documented output.
func (s Step) OnlyReads() bool {
	return slices.ContainsFunc([]string{"get", "logs", "describe", "train why"}, func(verb string) bool {
		return strings.HasPrefix(s.Command, "kubectl "+verb+" ")
	})
}

// Compare returns an error unless the output of the command has all lines that the document shows, in the same order.
// The output can have other lines between them. "..." in the document matches any text, and an age matches any age. A
// prefix like "[default0]:" in the output is ignored, because torchrun of the oldest PyTorch puts it before each
// line. The argument failed is the error of the command. Compare returns this error only if the document shows no
// output.
func (s Step) Compare(output string, failed error) error {
	if failed != nil && len(s.Prints) == 0 {
		return fmt.Errorf("%w: %s", failed, output)
	}
	lines := strings.Split(output, "\n")
	for _, shown := range s.Prints {
		var words []string
		for word := range strings.FieldsSeq(shown) {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(word), `\.\.\.`, `.*`)
			if age.MatchString(word) {
				pattern = `\S+`
			}
			words = append(words, pattern)
		}
		pattern := regexp.MustCompile(`^\s*(\[default\d+\]:)?` + strings.Join(words, `\s+`) + `\s*$`)
		found := false
		for len(lines) > 0 && !found {
			found = pattern.MatchString(lines[0])
			lines = lines[1:]
		}
		if !found {
			return fmt.Errorf("the line %q is missing or out of order; the end of the output:\n%s", shown,
				output[max(0, len(output)-2000):])
		}
	}
	return nil
}

// age matches the age of an object as kubectl prints it.
var age = regexp.MustCompile(`^(\d+[smhd])+$`)
