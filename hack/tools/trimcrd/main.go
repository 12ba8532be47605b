// Trimcrd trims CustomResourceDefinitions, in place. It drops the descriptions inside embedded core types: with the text of
// every field of a pod, a CRD would be too large for the annotation that `kubectl apply` keeps. And it narrows the schemas of
// ports and quantities to what Go reads: an object that the API server takes and a controller cannot read stops that controller
// for everybody, since it cannot read a list with that object in it either.
//
//	trimcrd -core template,resources FILE...
package main

import (
	"flag"
	"fmt"
	"math"
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
	narrow(crd)
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

// quantity matches what resource.ParseQuantity takes. The pattern that controller-gen writes allows an exponent with a fraction,
// which it does not take, and one of any length, over which it takes minutes. No quantity needs more than two digits of it.
const quantity = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`

// narrow bounds the schemas of whatever may be an integer or a string. One with a pattern is a resource.Quantity; one without
// is an intstr.IntOrString, whose integer has 32 bits.
func narrow(node any) {
	switch node := node.(type) {
	case map[string]any:
		if either, _ := node["x-kubernetes-int-or-string"].(bool); either {
			if node["pattern"] != nil {
				node["pattern"] = quantity
			} else {
				node["minimum"], node["maximum"] = math.MinInt32, math.MaxInt32
			}
		}
		for _, child := range node {
			narrow(child)
		}
	case []any:
		for _, item := range node {
			narrow(item)
		}
	}
}
