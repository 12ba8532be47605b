package stages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// PendingFile is the path of the file with the pending stages. The file is a part of the repository, so that every
// machine that tests a later change knows these stages. A Tree does not include the file.
const PendingFile = "test/stages/pending.yaml"

// Pending is the content of PendingFile.
type Pending struct {
	// Stages are the names of the stages that have not passed since a change of the files that they test, in the order
	// in which they run.
	Stages []string `json:"pending"`
	// Areas maps the name of each tested area to the digest that its files had when Stages was written. If the digest is
	// different now, the area has changed since.
	Areas map[string]string `json:"since"`
}

// ReadPending reads the PendingFile of a repository. If the file is missing, it returns neither stages nor digests,
// so that all areas count as changed.
func ReadPending(root string) (Pending, error) {
	var pending Pending
	content, err := os.ReadFile(filepath.Join(root, PendingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return pending, nil
	}
	if err == nil {
		err = yaml.UnmarshalStrict(content, &pending)
	}
	if err != nil {
		return pending, fmt.Errorf("reading %s: %w (after a conflict, take the file of the other change)", PendingFile, err)
	}
	return pending, nil
}

// Write writes the PendingFile of a repository.
func (p Pending) Write(root string) error {
	content, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	const comment = `# The stages that have not passed since a change touched what they test, and digests of the areas of stages.yaml, which show
# what later changes touch. "make ci" runs some of these stages, and "make pending" updates the file. After a conflict,
# take the file of the other change, and run "make pending".
`
	return os.WriteFile(filepath.Join(root, PendingFile), append([]byte(comment), content...), 0o644)
}

// Next returns the stages to run. Touched stages test an area that has changed since PendingFile was written.
// Remembered stages are listed in PendingFile. A stage can be both touched and remembered. Stages that have passed on
// this machine with the same files are left out.
func (p Pending) Next(list List, tree Tree, records Records) (touched, remembered []Stage) {
	hasPassed := func(s Stage) bool { return records.Passed(s.Name, list.digestFor(s, tree)) }
	for _, name := range p.Stages {
		if s, ok := list.stage(name); ok { // a stage that has been renamed or removed is ignored
			remembered = append(remembered, s)
		}
	}
	touched = list.touched(p.Areas, list.digests(tree))
	return slices.DeleteFunc(touched, hasPassed), slices.DeleteFunc(remembered, hasPassed)
}

// Update returns the content of PendingFile for a tree. Stages that the last changes touched come after those that
// were pending before.
func (p Pending) Update(list List, tree Tree, records Records) Pending {
	touched, remembered := p.Next(list, tree, records)
	updated := Pending{Stages: []string{}, Areas: list.digests(tree)}
	for _, s := range slices.Concat(remembered, touched) {
		if !slices.Contains(updated.Stages, s.Name) {
			updated.Stages = append(updated.Stages, s.Name)
		}
	}
	return updated
}
