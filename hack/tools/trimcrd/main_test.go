package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// crd wraps the properties of a spec as a CustomResourceDefinition does.
func crd(properties string) string {
	return `{kind: CustomResourceDefinition, spec: {group: example.org, versions: [{name: v1, schema: {openAPIV3Schema: {
		description: the kind, type: object, properties: {spec: {description: what is wanted, type: object, properties: ` +
		properties + `}}}}}]}}`
}

func TestTrimFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ properties, want string }{
		"our descriptions stay": {
			properties: `{replicas: {description: how many, type: integer}}`,
			want:       `{replicas: {description: how many, type: integer}}`,
		},
		"those inside an embedded type go": {
			properties: `{template: {type: object, properties: {spec: {description: of a pod, type: object, properties: {nodeName: {description: of a node, type: string}}}}}}`,
			want: `{template: {type: object, properties: {spec: {type: object, properties: {
				nodeName: {type: string, maxLength: 4096}}}}}}`,
		},
		"those of its lists go": {
			properties: `{template: {type: object, properties: {containers: {type: array, items: {description: one, type: object, properties: {name: {description: its name, type: string}}}}}}}`,
			want: `{template: {type: object, properties: {containers: {type: array, maxItems: 32,
				items: {type: object, properties: {name: {type: string, maxLength: 4096}}}}}}}`,
		},
		"those of its maps go": {
			properties: `{resources: {type: object, properties: {limits: {type: object, additionalProperties: {description: how much, type: string}}}}}`,
			want: `{resources: {type: object, properties: {limits: {type: object, maxProperties: 32,
				additionalProperties: {type: string, maxLength: 4096}}}}}`,
		},
		"an embedded type in a list of ours is found": {
			properties: `{replicaSpecs: {description: all, type: array, items: {description: one, type: object, properties: {type: {description: a name, type: string}, template: {type: object, properties: {spec: {description: of a pod, type: object}}}}}}}`,
			want: `{replicaSpecs: {description: all, type: array, maxItems: 64,
				items: {description: one, type: object, properties: {type: {description: a name, type: string, maxLength: 4096},
				template: {type: object, properties: {spec: {type: object}}}}}}}`,
		},
		"what follows an embedded type keeps its own": {
			properties: `{template: {type: object, properties: {spec: {description: of a pod, type: object}}}, zone: {description: where, type: string}}`,
			want: `{template: {type: object, properties: {spec: {type: object}}},
				zone: {description: where, type: string, maxLength: 4096}}`,
		},
		"a property that is called description is none": {
			properties: `{template: {type: object, properties: {description: {description: of a description, type: string}}}}`,
			want:       `{template: {type: object, properties: {description: {type: string, maxLength: 4096}}}}`,
		},
		"rules and defaults stay": {
			properties: `{template: {type: object, properties: {port: {description: a port, type: integer, default: 1, enum: [1, 2], x-kubernetes-validations: [{rule: self > 0, message: positive}]}}}}`,
			want:       `{template: {type: object, properties: {port: {type: integer, default: 1, enum: [1, 2], x-kubernetes-validations: [{rule: self > 0, message: positive}]}}}}`,
		},
		"a port has the integers that Go reads": {
			properties: `{template: {type: object, properties: {port: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}}}}`,
			want: `{template: {type: object, properties: {port: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true,
				minimum: -2147483648, maximum: 2147483647, maxLength: 64}}}}`,
		},
		"a quantity has a pattern that Go reads": {
			properties: `{limits: {type: object, additionalProperties: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true, pattern: any}}}`,
			want: `{limits: {type: object, maxProperties: 32,
				additionalProperties: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true,
				pattern: '` + quantity + `', maxLength: 64}}}`,
		},
		"a rule of a container restarts that container alone": {
			properties: `{containers: {type: array, items: {type: object, properties: {
				restartPolicyRules: {type: array, items: {type: object, properties: {
				action: {type: string}, exitCodes: {type: object}}}}}}}}`,
			want: `{containers: {type: array, maxItems: 32, items: {type: object, properties: {
				restartPolicyRules: {type: array, maxItems: 64, items: {type: object, properties: {
				action: {type: string, enum: [Restart]}, exitCodes: {type: object}}}}}}}}`,
		},
		"what Go writes of an unset field of a template is the default": {
			properties: `{template: {type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {
				resources: {type: object}, containers: {type: array, items: {type: object, properties: {
				resources: {type: object}, resourceFieldRef: {type: object, properties: {divisor: {type: integer}}}}}}}}}},
				resources: {type: object}}`,
			want: `{template: {type: object, properties: {metadata: {type: object, default: {}}, spec: {
				type: object, properties: {
				resources: {type: object}, containers: {type: array, maxItems: 32, items: {type: object, properties: {
				resources: {type: object, default: {}},
				resourceFieldRef: {type: object, properties: {divisor: {type: integer, default: "0"}}}}}}}}}},
				resources: {type: object}}`,
		},
		"a list, a map and a string get the limits of most": {
			properties: `{tolerations: {type: array, items: {type: object, properties: {key: {type: string}}}},
				nodeSelector: {type: object, additionalProperties: {type: string}}}`,
			want: `{tolerations: {type: array, maxItems: 64,
				items: {type: object, properties: {key: {type: string, maxLength: 4096}}}},
				nodeSelector: {type: object, maxProperties: 64,
				additionalProperties: {type: string, maxLength: 4096}}}`,
		},
		"what real jobs have more of gets limits by its name": {
			properties: `{command: {type: array, items: {type: string}},
				annotations: {type: object, additionalProperties: {type: string}}}`,
			want: `{command: {type: array, maxItems: 1024, items: {type: string, maxLength: 131072}},
				annotations: {type: object, maxProperties: 256,
				additionalProperties: {type: string, maxLength: 131072}}}`,
		},
		"a field that is called items has those of its name": {
			properties: `{secret: {type: object, properties: {items: {type: array, items: {type: object}}}}}`,
			want: `{secret: {type: object, properties: {
				items: {type: array, maxItems: 256, items: {type: object}}}}}`,
		},
		"limits of its own stay": {
			properties: `{types: {type: array, maxItems: 3, items: {type: string, maxLength: 63}},
				tags: {type: object, maxProperties: 2, additionalProperties: {type: integer}}}`,
			want: `{types: {type: array, maxItems: 3, items: {type: string, maxLength: 63}},
				tags: {type: object, maxProperties: 2, additionalProperties: {type: integer}}}`,
		},
		"one of some strings needs no limit": {
			properties: `{mode: {type: string, enum: [Fast, Slow]}}`,
			want:       `{mode: {type: string, enum: [Fast, Slow]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "crd.yaml")
			if err := os.WriteFile(file, []byte(crd(tc.properties)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := trimFile(file, map[string]bool{"template": true, "resources": true}); err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parsed(t, []byte(crd(tc.want))), parsed(t, got)); diff != "" {
				t.Errorf("unexpected CRD (-want +got):\n%s", diff)
			}
		})
	}
}

// A controller must be able to write whatever it sees into a status.
func TestTrimFileLeavesTheStatusUnlimited(t *testing.T) {
	t.Parallel()
	const content = `{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object, properties: {
		status: {type: object, properties: {replicas: {type: array, items: {type: string}}}}}}}}]}}`
	file := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := trimFile(file, nil); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parsed(t, []byte(content)), parsed(t, got)); diff != "" {
		t.Errorf("unexpected CRD (-want +got):\n%s", diff)
	}
}

// Make may trim a file that is trimmed already.
func TestTrimFileTwiceIsOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crd.yaml")
	content := crd(`{template: {type: object, properties: {spec: {description: of a pod, type: object},
		names: {type: array, items: {type: string}}}}}`)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var written []string
	for range 2 {
		if err := trimFile(file, map[string]bool{"template": true}); err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		written = append(written, string(got))
	}
	if diff := cmp.Diff(written[0], written[1]); diff != "" {
		t.Errorf("the second time changes the file (-first +second):\n%s", diff)
	}
}

func TestTrimFileRefuses(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"a file that is not there": filepath.Join(t.TempDir(), "crd.yaml"),
		"a file that is no YAML":   broken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := trimFile(file, nil); err == nil {
				t.Error("no error")
			}
		})
	}
}

func parsed(t *testing.T, content []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal(content, &object); err != nil {
		t.Fatalf("the file is no YAML: %v\n%s", err, content)
	}
	return object
}
