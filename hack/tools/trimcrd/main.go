// Trimcrd drops the descriptions inside embedded core types from CustomResourceDefinitions, in place: with the text of
// every field of a pod, a CRD would be too large for the annotation that `kubectl apply` keeps.
//
//	trimcrd -core template,resources FILE...
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	core := flag.String("core", "template,resources", "names of the properties that embed core types")
	flag.Parse()
	embedded := map[string]bool{}
	for name := range strings.SplitSeq(*core, ",") {
		embedded[name] = true
	}
	for _, file := range flag.Args() {
		if err := trimFile(file, embedded); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
	}
}

func trimFile(file string, embedded map[string]bool) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	trim(crd, embedded, false, false)
	content, err = yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// trim walks a schema. The description of a property that embeds a core type is ours and stays; those below it go. Only a
// description that is a string is one; a property may be called description as well.
func trim(node any, embedded map[string]bool, inside, below bool) {
	switch node := node.(type) {
	case map[string]any:
		if _, text := node["description"].(string); text && inside {
			delete(node, "description")
		}
		for _, key := range []string{"items", "additionalProperties"} {
			trim(node[key], embedded, below, below)
		}
		if properties, ok := node["properties"].(map[string]any); ok {
			for name, property := range properties {
				trim(property, embedded, below, below || embedded[name])
			}
		}
		for _, key := range []string{"spec", "versions", "schema", "openAPIV3Schema"} {
			if _, isSchema := node["properties"]; !isSchema {
				trim(node[key], embedded, below, below)
			}
		}
	case []any:
		for _, item := range node {
			trim(item, embedded, inside, below)
		}
	}
}
