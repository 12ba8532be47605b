// Trimcrd trims CustomResourceDefinitions, and the objects that they accept, in place:
//
//	trimcrd -core template,resources FILE...
//
// It drops the descriptions inside embedded core types: with the text of every field of a pod, a CRD would be too large
// for the annotation that `kubectl apply` keeps.
//
// It narrows the schemas of ports and quantities to what Go reads: an object that the API server accepts and a
// controller cannot read stops that controller for everybody, since it cannot read a list with that object in it
// either.
//
// It takes from the schema the rules by which a container restarts all containers of its pod: the controller restarts
// the main container.
//
// It makes what Go writes of unset fields their default, so that a client that reads an object into Go's types and
// writes it back has changed nothing.
//
// It limits the lists, maps and strings of a spec that have no limits of their own: a controller keeps all objects of a
// kind in memory, where a small item is many times larger than in JSON.
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
	confineRestarts(crd)
	for _, spec := range specsOf(crd) {
		setZeros(spec, "spec")
		limit(spec, "spec")
	}
	content, err = yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// trim walks a schema. The description of a property that embeds a core type is ours and stays; those below it go. Only
// a description that is a string is one; a property may be called description as well.
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

// quantity matches what resource.ParseQuantity takes. The pattern that controller-gen writes allows an exponent with a
// fraction, which it does not take, and one of any length, over which it takes minutes. No quantity needs more than two
// digits of it.
const quantity = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`

// narrow bounds the schemas of whatever may be an integer or a string. One with a pattern is a resource.Quantity; one
// without is an intstr.IntOrString, whose integer has 32 bits.
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

// confineRestarts lets a rule of a container restart that container, and no other of its pod.
func confineRestarts(node any) {
	switch node := node.(type) {
	case map[string]any:
		if rules, ok := node["restartPolicyRules"].(map[string]any); ok {
			items, _ := rules["items"].(map[string]any)
			properties, _ := items["properties"].(map[string]any)
			if action, ok := properties["action"].(map[string]any); ok {
				action["enum"] = []any{"Restart"}
			}
		}
		for _, child := range node {
			confineRestarts(child)
		}
	case []any:
		for _, item := range node {
			confineRestarts(item)
		}
	}
}

// zeros are what Go writes of fields of a template that are not set, by the end of their paths. It omits all others.
var zeros = map[string]any{
	".template.metadata":                  map[string]any{},
	".containers.resources":               map[string]any{},
	".initContainers.resources":           map[string]any{},
	".ephemeralContainers.resources":      map[string]any{},
	".volumeClaimTemplate.metadata":       map[string]any{},
	".volumeClaimTemplate.spec.resources": map[string]any{},
	".resourceFieldRef.divisor":           "0",
}

// setZeros makes what Go writes of the unset fields below a path their default.
func setZeros(node any, path string) {
	schema, ok := node.(map[string]any)
	if !ok {
		return
	}
	for end, zero := range zeros {
		if strings.HasSuffix(path, end) {
			schema["default"] = zero
		}
	}
	items, _ := schema["items"].(map[string]any)
	for _, schema := range []map[string]any{schema, items} {
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			setZeros(property, path+"."+name)
		}
	}
}

// limits are the values of a keyword: by the name of the field, and for all other fields.
type limits struct {
	keyword string
	others  int
	fields  map[string]int
}

// script is the longest argument of a program that Linux accepts, in characters.
const script = 128 << 10

// No real job comes near these limits. Lists whose items may be {} have the tightest: they grow the most when Go reads
// them.
var (
	maxItems = limits{"maxItems", 64, map[string]int{
		"args": 1024, "command": 1024, "env": 1024, "supplementalGroups": 1024,
		"containers": 32, "ephemeralContainers": 32, "initContainers": 32, "sources": 32,
		"hostAliases": 256, "items": 256, "ports": 256, "volumeMounts": 256, "volumes": 256,
		"values": 4096, // a selector may list every node by name
	}}
	maxProperties = limits{"maxProperties", 64, map[string]int{
		"annotations": 256, "labels": 256, "limits": 32, "overhead": 32, "requests": 32,
	}}
	maxLength = limits{"maxLength", 4096, map[string]int{
		"annotations": script, "args": script, "command": script, "gmsaCredentialSpec": script, "value": script,
	}}
	// maxNumber limits the integers and quantities that may be strings.
	maxNumber = limits{"maxLength", 64, nil}
)

// set limits the schema of a field, unless it is limited.
func (l limits) set(schema map[string]any, field string) {
	if schema[l.keyword] != nil {
		return
	}
	limit, ok := l.fields[field]
	if !ok {
		limit = l.others
	}
	schema[l.keyword] = limit
}

// specsOf returns the schemas of what users write. A status has no limits: a controller must be able to write what it
// has seen.
func specsOf(crd map[string]any) []any {
	var specs []any
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, schema := range versions {
		for _, key := range []string{"schema", "openAPIV3Schema", "properties", "spec"} {
			node, _ := schema.(map[string]any)
			schema = node[key]
		}
		specs = append(specs, schema)
	}
	return specs
}

// limit walks the schema of a field. The items of a list and the values of a map have the limits of its name.
func limit(node any, field string) {
	schema, ok := node.(map[string]any)
	if !ok {
		return
	}
	either, _ := schema["x-kubernetes-int-or-string"].(bool)
	switch {
	case either:
		maxNumber.set(schema, field)
	case schema["type"] == "array":
		maxItems.set(schema, field)
	case schema["type"] == "string" && schema["enum"] == nil:
		maxLength.set(schema, field)
	}
	if schema["additionalProperties"] != nil {
		maxProperties.set(schema, field)
	}
	limit(schema["items"], field)
	limit(schema["additionalProperties"], field)
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		limit(property, name)
	}
}
