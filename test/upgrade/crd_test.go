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

// valid is a CRD that the cases change a line of.
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

func TestBrokenSaysWhatUsersLose(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after string // of a line of valid
		want          []string
	}{
		"nothing changes": {"kind: TestJob", "kind: TestJob", nil},
		"what is added is optional": {
			"mode: {type: string, enum: [Fast, Slow]}",
			"mode: {type: string, enum: [Fast, Slow, Idle]}\n                added: {type: object, required: [a], properties: {a: {type: string}}}",
			nil,
		},
		"what is required has a default": {
			"            spec:\n              type: object",
			"            spec:\n              type: object\n              required: [size]", nil,
		},
		"what no controller has written has a default": {
			"status: {type: object}", "status: {type: object, default: {size: 1}}", nil,
		},
		"limits are wider": {"minimum: 1, maximum: 9", "maximum: 10", nil},
		"any value is taken": {
			"mode: {type: string, enum: [Fast, Slow]}", "mode: {type: string}", nil,
		},
		"another kind": {"kind: TestJob", "kind: Job", []string{"kind was TestJob and is Job"}},
		"another scope": {
			"scope: Namespaced", "scope: Cluster", []string{"scope was Namespaced and is Cluster"},
		},
		"a short name is gone":    {"[tj]", "[testj]", []string{"shortName tj is lost"}},
		"a category is gone":      {"[training]", "[]", []string{"category training is lost"}},
		"a version is not served": {"served: true", "served: false", []string{"version v1 is no longer served"}},
		"a version is gone":       {"name: v1", "name: v2", []string{"version v1 is no longer served"}},
		"the scale subresource is": {
			".spec.size, ", ".spec.replicas, ",
			[]string{
				"v1: subresources was status, scale .spec.size .status.size  and is status, scale .spec.replicas .status.size ",
			},
		},
		"a property is gone": {"port: {", "ports: {", []string{"v1: spec has lost port"}},
		"a value is refused": {"[Fast, Slow]", "[Fast]", []string{`v1: spec.mode no longer takes "Slow"`}},
		"all but some are": {
			"x-kubernetes-list-type: set\n                  items: {type: string",
			"x-kubernetes-list-type: set\n                  items: {enum: [a], type: string",
			[]string{"v1: spec.names[] takes no more than some values"},
		},
		"something is required": {
			"            spec:\n              type: object",
			"            spec:\n              type: object\n              required: [mode]",
			[]string{"v1: spec requires mode"},
		},
		"a type is another": {
			"port: {x-kubernetes-int-or-string: true}", "port: {type: integer}",
			[]string{`v1: spec.port was of type "int-or-string" and is of type "integer"`},
		},
		"a default is another":    {"default: 1", "default: 2", []string{"v1: spec.size has another default"}},
		"a default is gone":       {", default: 1", "", []string{"v1: spec.size has another default"}},
		"a lower limit is higher": {"minimum: 1", "minimum: 2", []string{"v1: spec.size has a tighter minimum"}},
		"an upper limit is lower": {"maxLength: 5", "maxLength: 4", []string{"v1: spec.names[] has a tighter maxLength"}},
		"a limit is new": {
			"maxItems: 3", "maxItems: 3\n                  minItems: 1", []string{"v1: spec.names has a new minItems"},
		},
		"values match less": {"pattern: a+", "pattern: a", []string{"v1: spec.labels{} has another pattern"}},
		"values have no schema": {
			"additionalProperties: {type: string, pattern: a+}", "properties: {a: {type: string}}",
			[]string{"v1: spec.labels{} has lost its schema"},
		},
		"unknown fields are dropped": {
			", x-kubernetes-preserve-unknown-fields: true", "",
			[]string{"v1: spec.free has a tighter x-kubernetes-preserve-unknown-fields"},
		},
		"a list merges otherwise": {
			"x-kubernetes-list-type: set", "x-kubernetes-list-type: atomic",
			[]string{"v1: spec.names has another x-kubernetes-list-type"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := strings.Count(valid, tc.before); n != 1 {
				t.Fatalf("the CRD has %d times, instead of once, what the case replaces: %s", n, tc.before)
			}
			got := Broken(parse(t, []byte(valid)), parse(t, []byte(strings.Replace(valid, tc.before, tc.after, 1))))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected findings (-want +got):\n%s", diff)
			}
		})
	}
}

// accepted are findings that are no error, by the version before. No version without limits of lists, maps and strings
// was released, and none that lets a container restart its whole pod. A default that is what Go writes of an unset
// field changes no pod.
var accepted = map[string]*regexp.Regexp{
	"907c086c3fee1baa560830c993ef5245989ad060": regexp.MustCompile(
		` has a new max(Items|Length|Properties)$|\.restartPolicyRules\[\]\.action takes no more than some values$` +
			`|\.template\.(.*\.)?(metadata|resources|divisor) has another default$`),
}

// What a CRD of the version before has, that of the tree has.
func TestCRDsTakeNothingAway(t *testing.T) {
	t.Parallel()
	before, revision := previous(t)
	crds, err := filepath.Glob(filepath.Join(before, "*/config/crd/*_*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("the version before has no CRD: %v", err)
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
