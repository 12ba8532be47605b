package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"tensorstack.dev/jobs/hack/tools/internal/provenance"
)

// provenance writes the provenance of the files, with the commit that they were built from. It returns the name of
// the file with the provenance.
func (r *release) provenance(commit string, files []string) (name string, err error) {
	var subjects []provenance.Subject
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(r.root, artifacts, file))
		if err != nil {
			return "", err
		}
		subjects = append(subjects, provenance.SubjectOf(file, content))
	}
	statement, err := provenance.Statement(provenance.Build{
		Type: provenance.Release, Module: r.module, Version: r.version, Commit: commit, GoVersion: runtime.Version(),
	}, subjects...)
	if err != nil {
		return "", fmt.Errorf("writing the provenance: %w", err)
	}
	name = fmt.Sprintf("%s-%s.provenance.json", r.module, r.version)
	return name, os.WriteFile(filepath.Join(r.root, artifacts, name), statement, 0o644)
}
