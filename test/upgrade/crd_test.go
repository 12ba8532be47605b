package upgrade

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// valid is a CRD. Each case replaces one text in it.
const valid = `
spec:
  group: tests.tensorstack.dev
  scope: Namespaced
  names:
    kind: TestJob
    plural: testjobs
    shortNames: [tj]
    categories: [training]
  versions:
    - name: v1
      served: true
      subresources:
        status: {}
        scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            status: {type: object}
            spec:
              type: object
              properties:
                size: {type: integer, minimum: 1, maximum: 9, default: 1}
                mode: {type: string, enum: [Fast, Slow]}
                port: {x-kubernetes-int-or-string: true}
                names:
                  type: array
                  maxItems: 3
                  x-kubernetes-list-type: set
                  items: {type: string, maxLength: 5}
                labels:
                  type: object
                  additionalProperties: {type: string, pattern: a+}
                free: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

func TestBrokenFindsIncompatibleChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after string // a text in valid and its replacement
		want          []string
	}{
		"no change is compatible": {"kind: TestJob", "kind: TestJob", nil},
		"a new optional field and a new value are compatible": {
			"mode: {type: string, enum: [Fast, Slow]}",
			"mode: {type: string, enum: [Fast, Slow, Idle]}\n" +
				"                added: {type: object, required: [a], properties: {a: {type: string}}}",
			nil,
		},
		"a newly required field with a default is compatible": {
			"            spec:\n              type: object",
			"            spec:\n              type: object\n              required: [size]", nil,
		},
		"a new default of the status is compatible": {
			"status: {type: object}", "status: {type: object, default: {size: 1}}", nil,
		},
		"wider limits are compatible": {"minimum: 1, maximum: 9", "maximum: 10", nil},
		"an enum that is dropped is compatible": {
			"mode: {type: string, enum: [Fast, Slow]}", "mode: {type: string}", nil,
		},
		"the kind changes": {"kind: TestJob", "kind: Job", []string{"kind was TestJob and is now Job"}},
		"the scope changes": {
			"scope: Namespaced", "scope: Cluster", []string{"scope was Namespaced and is now Cluster"},
		},
		"a short name is removed":       {"[tj]", "[testj]", []string{"shortName tj is gone"}},
		"a category is removed":         {"[training]", "[]", []string{"category training is gone"}},
		"a version is no longer served": {"served: true", "served: false", []string{"version v1 is no longer served"}},
		"a version is removed":          {"name: v1", "name: v2", []string{"version v1 is no longer served"}},
		"the scale subresource changes": {
			".spec.size, ", ".spec.replicas, ",
			[]string{"v1: subresources was status, scale .spec.size .status.size  and is now " +
				"status, scale .spec.replicas .status.size "},
		},
		"a property is removed":    {"port: {", "ports: {", []string{"v1: spec no longer has port"}},
		"an enum value is removed": {"[Fast, Slow]", "[Fast]", []string{`v1: spec.mode no longer accepts "Slow"`}},
		"an enum is added": {
			"x-kubernetes-list-type: set\n                  items: {type: string",
			"x-kubernetes-list-type: set\n                  items: {enum: [a], type: string",
			[]string{"v1: spec.names[] accepts only some values now"},
		},
		"a field becomes required": {
			"            spec:\n              type: object",
			"            spec:\n              type: object\n              required: [mode]",
			[]string{"v1: spec now requires mode"},
		},
		"a type changes": {
			"port: {x-kubernetes-int-or-string: true}", "port: {type: integer}",
			[]string{`v1: spec.port was of type "int-or-string" and is now of type "integer"`},
		},
		"a default changes":    {"default: 1", "default: 2", []string{"v1: spec.size has a different default"}},
		"a default is removed": {", default: 1", "", []string{"v1: spec.size has a different default"}},
		"a lower limit rises":  {"minimum: 1", "minimum: 2", []string{"v1: spec.size has a tighter minimum"}},
		"an upper limit falls": {"maxLength: 5", "maxLength: 4", []string{"v1: spec.names[] has a tighter maxLength"}},
		"a limit is added": {
			"maxItems: 3", "maxItems: 3\n                  minItems: 1", []string{"v1: spec.names has a new minItems"},
		},
		"a pattern of map values changes": {
			"pattern: a+", "pattern: a", []string{"v1: spec.labels{} has a different pattern"},
		},
		"the schema of map values is removed": {
			"additionalProperties: {type: string, pattern: a+}", "properties: {a: {type: string}}",
			[]string{"v1: spec.labels{} no longer has a schema"},
		},
		"unknown fields are no longer preserved": {
			", x-kubernetes-preserve-unknown-fields: true", "",
			[]string{"v1: spec.free has a tighter x-kubernetes-preserve-unknown-fields"},
		},
		"a list merges differently": {
			"x-kubernetes-list-type: set", "x-kubernetes-list-type: atomic",
			[]string{"v1: spec.names has a different x-kubernetes-list-type"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := strings.Count(valid, tc.before); n != 1 {
				t.Fatalf("the CRD contains the text that the case replaces %d times, want once: %s", n, tc.before)
			}
			got := Broken(parse(t, []byte(valid)), parse(t, []byte(strings.Replace(valid, tc.before, tc.after, 1))))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected findings (-want +got):\n%s", diff)
			}
		})
	}
}

// accepted maps the revision of the previous version to a pattern. The test ignores the findings that match the
// pattern, because these changes break no user. All releases limit lists, maps and strings, and reject containers
// that can restart the whole pod. Each new default equals the value that Go writes for an unset field, so the default
// changes no pod.
var accepted = map[string]*regexp.Regexp{
	"907c086c3fee1baa560830c993ef5245989ad060": regexp.MustCompile(
		` has a new max(Items|Length|Properties)$|\.restartPolicyRules\[\]\.action accepts only some values now$` +
			`|\.template\.(.*\.)?(metadata|resources|divisor) has a different default$`),
}

func TestCRDsAreCompatibleWithThePreviousVersion(t *testing.T) {
	t.Parallel()
	before, revision := previous(t)
	crds, err := filepath.Glob(filepath.Join(before, "*/config/crd/*_*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("the previous version has no CRD: %v", err)
	}
	for _, file := range crds {
		name, err := filepath.Rel(before, file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, lost := range Broken(readCRD(t, file), readCRD(t, filepath.Join(repo, name))) {
				if known := accepted[revision]; known == nil || !known.MatchString(lost) {
					t.Error(lost)
				}
			}
		})
	}
}

// repo is the root of the repository.
const repo = "../.."

func readCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, content)
}

func parse(t *testing.T, manifest []byte) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(manifest, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}
