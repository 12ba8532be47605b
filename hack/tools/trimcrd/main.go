// Trimcrd trims CustomResourceDefinitions in place, and restricts the objects that they accept:
//
//	trimcrd -core template,resources FILE...
//
// It removes the descriptions inside embedded core types. With the description of every field of a pod, a CRD would be
// too large for the annotation that `kubectl apply` sets.
//
// It restricts the schemas of ports and quantities to values that Go can decode. If the API server accepted an object
// that a controller cannot decode, the controller could not decode any list that contains the object. It would then
// stop working for all users.
//
// It forbids the restart rules with which a container restarts all containers of its pod, because the controller
// restarts replicas itself.
//
// It sets the defaults of some fields to the values that Go encodes for unset fields. A client that decodes an object
// into Go types and writes it back then changes nothing.
//
// It limits the lists, maps and strings of a spec that have no limits. A controller keeps all objects of a kind in
// memory, where a small item is many times larger than in JSON.
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
	core := flag.String("core", "template,resources", "comma-separated names of the properties that embed core types")
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

// trim removes the descriptions inside embedded core types from a schema. It keeps the description of a property that
// embeds a core type, because that description comes from our API. It also keeps a description that is not a string:
// it is the schema of a property with the name description.
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

// quantity is a pattern of the values that resource.ParseQuantity accepts. The pattern of controller-gen also allows
// exponents with a fraction, which ParseQuantity rejects, and exponents of any length. ParseQuantity needs minutes
// for a long exponent. No quantity needs an exponent of more than two digits.
const quantity = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`

// narrow restricts the schemas of values that can be an integer or a string. A schema with a pattern is a
// resource.Quantity. A schema without a pattern is an intstr.IntOrString, whose integer has 32 bits.
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

// confineRestarts allows only those restart rules of a container that restart the container itself, and not the other
// containers of its pod.
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

// zeros maps the end of the path of a field to the value that Go encodes if the field is unset. If other fields of a
// template are unset, Go omits them.
var zeros = map[string]any{
	".template.metadata":                  map[string]any{},
	".containers.resources":               map[string]any{},
	".initContainers.resources":           map[string]any{},
	".ephemeralContainers.resources":      map[string]any{},
	".volumeClaimTemplate.metadata":       map[string]any{},
	".volumeClaimTemplate.spec.resources": map[string]any{},
	".resourceFieldRef.divisor":           "0",
}

// setZeros sets the default of the field at a path, and of each field below it, if zeros has a value for the field.
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

// limits are the limits that a keyword of JSON Schema, such as maxItems, sets on fields. The map has the limits of
// some fields, by name. All other fields have the same limit.
type limits struct {
	keyword string
	others  int
	fields  map[string]int
}

// script is the maximum length, in characters, of a string that can contain a whole script. Linux has the same limit
// for an argument of a program.
const script = 128 << 10

// Real jobs are far below these limits. Lists whose items can be {} have the lowest limits, because they grow the most
// when Go decodes them.
var (
	maxItems = limits{"maxItems", 64, map[string]int{
		"args": 1024, "command": 1024, "env": 1024, "supplementalGroups": 1024,
		"containers": 32, "ephemeralContainers": 32, "initContainers": 32, "sources": 32,
		"hostAliases": 256, "items": 256, "ports": 256, "volumeMounts": 256, "volumes": 256,
		"values": 4096, // a selector can list every node by name
	}}
	maxProperties = limits{"maxProperties", 64, map[string]int{
		"annotations": 256, "labels": 256, "limits": 32, "overhead": 32, "requests": 32,
	}}
	maxLength = limits{"maxLength", 4096, map[string]int{
		"annotations": script, "args": script, "command": script, "gmsaCredentialSpec": script, "value": script,
	}}
	// maxNumber limits integers and quantities that are written as strings.
	maxNumber = limits{"maxLength", 64, nil}
)

// set adds the limit to the schema of a field, unless the schema has one.
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

// specsOf returns the schemas of the spec of each version of a CRD. The status gets no limits, because a controller
// must be able to write whatever it observes.
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

// limit adds the missing limits to the schema of a field and of all fields below it. The items of a list and the values
// of a map get the limits for the name of the list or map.
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
