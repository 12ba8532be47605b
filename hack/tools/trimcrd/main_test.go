package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// crd returns a CustomResourceDefinition with the given properties of the spec.
func crd(properties string) string {
	return `{kind: CustomResourceDefinition, spec: {group: example.org, versions: [{name: v1, schema: {openAPIV3Schema: {
		description: the kind, type: object, properties: {spec: {description: what is wanted, type: object, properties: ` +
		properties + `}}}}}]}}`
}

func TestTrimFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ properties, want string }{
		"descriptions outside embedded types are kept": {
			properties: `{replicas: {description: how many, type: integer}}`,
			want:       `{replicas: {description: how many, type: integer}}`,
		},
		"descriptions inside an embedded type are removed": {
			properties: `{template: {type: object, properties: {spec: {description: of a pod, type: object, properties: {nodeName: {description: of a node, type: string}}}}}}`,
			want: `{template: {type: object, properties: {spec: {type: object, properties: {
				nodeName: {type: string, maxLength: 4096}}}}}}`,
		},
		"descriptions in lists of an embedded type are removed": {
			properties: `{template: {type: object, properties: {containers: {type: array, items: {description: one, type: object, properties: {name: {description: its name, type: string}}}}}}}`,
			want: `{template: {type: object, properties: {containers: {type: array, maxItems: 32,
				items: {type: object, properties: {name: {type: string, maxLength: 4096}}}}}}}`,
		},
		"descriptions in maps of an embedded type are removed": {
			properties: `{resources: {type: object, properties: {limits: {type: object, additionalProperties: {description: how much, type: string}}}}}`,
			want: `{resources: {type: object, properties: {limits: {type: object, maxProperties: 32,
				additionalProperties: {type: string, maxLength: 4096}}}}}`,
		},
		"descriptions are removed from an embedded type in a list": {
			properties: `{replicaSpecs: {description: all, type: array, items: {description: one, type: object, properties: {type: {description: a name, type: string}, template: {type: object, properties: {spec: {description: of a pod, type: object}}}}}}}`,
			want: `{replicaSpecs: {description: all, type: array, maxItems: 64,
				items: {description: one, type: object, properties: {type: {description: a name, type: string, maxLength: 4096},
				template: {type: object, properties: {spec: {type: object}}}}}}}`,
		},
		"a property next to an embedded type keeps its description": {
			properties: `{template: {type: object, properties: {spec: {description: of a pod, type: object}}}, zone: {description: where, type: string}}`,
			want: `{template: {type: object, properties: {spec: {type: object}}},
				zone: {description: where, type: string, maxLength: 4096}}`,
		},
		"a property with the name description is kept": {
			properties: `{template: {type: object, properties: {description: {description: of a description, type: string}}}}`,
			want:       `{template: {type: object, properties: {description: {type: string, maxLength: 4096}}}}`,
		},
		"rules and defaults in an embedded type are kept": {
			properties: `{template: {type: object, properties: {port: {description: a port, type: integer, default: 1, enum: [1, 2], x-kubernetes-validations: [{rule: self > 0, message: positive}]}}}}`,
			want:       `{template: {type: object, properties: {port: {type: integer, default: 1, enum: [1, 2], x-kubernetes-validations: [{rule: self > 0, message: positive}]}}}}`,
		},
		"a port is restricted to integers that Go can decode": {
			properties: `{template: {type: object, properties: {port: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}}}}`,
			want: `{template: {type: object, properties: {port: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true,
				minimum: -2147483648, maximum: 2147483647, maxLength: 64}}}}`,
		},
		"a quantity is restricted to values that Go can decode": {
			properties: `{limits: {type: object, additionalProperties: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true, pattern: any}}}`,
			want: `{limits: {type: object, maxProperties: 32,
				additionalProperties: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true,
				pattern: '` + quantity + `', maxLength: 64}}}`,
		},
		"a restart rule can only restart its own container": {
			properties: `{containers: {type: array, items: {type: object, properties: {
				restartPolicyRules: {type: array, items: {type: object, properties: {
				action: {type: string}, exitCodes: {type: object}}}}}}}}`,
			want: `{containers: {type: array, maxItems: 32, items: {type: object, properties: {
				restartPolicyRules: {type: array, maxItems: 64, items: {type: object, properties: {
				action: {type: string, enum: [Restart]}, exitCodes: {type: object}}}}}}}}`,
		},
		"the default of a template field is the value that Go encodes if it is unset": {
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
		"lists, maps and strings get default limits": {
			properties: `{tolerations: {type: array, items: {type: object, properties: {key: {type: string}}}},
				nodeSelector: {type: object, additionalProperties: {type: string}}}`,
			want: `{tolerations: {type: array, maxItems: 64,
				items: {type: object, properties: {key: {type: string, maxLength: 4096}}}},
				nodeSelector: {type: object, maxProperties: 64,
				additionalProperties: {type: string, maxLength: 4096}}}`,
		},
		"fields that real jobs use more get limits by name": {
			properties: `{command: {type: array, items: {type: string}},
				annotations: {type: object, additionalProperties: {type: string}}}`,
			want: `{command: {type: array, maxItems: 1024, items: {type: string, maxLength: 131072}},
				annotations: {type: object, maxProperties: 256,
				additionalProperties: {type: string, maxLength: 131072}}}`,
		},
		"a field with the name items gets the limits for that name": {
			properties: `{secret: {type: object, properties: {items: {type: array, items: {type: object}}}}}`,
			want: `{secret: {type: object, properties: {
				items: {type: array, maxItems: 256, items: {type: object}}}}}`,
		},
		"existing limits are kept": {
			properties: `{types: {type: array, maxItems: 3, items: {type: string, maxLength: 63}},
				tags: {type: object, maxProperties: 2, additionalProperties: {type: integer}}}`,
			want: `{types: {type: array, maxItems: 3, items: {type: string, maxLength: 63}},
				tags: {type: object, maxProperties: 2, additionalProperties: {type: integer}}}`,
		},
		"an enum gets no limit": {
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

// A controller must be able to write whatever it observes into a status.
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

// Trimming a file that has already been trimmed must not change it.
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
		t.Errorf("trimming the file again changed it (-first +second):\n%s", diff)
	}
}

func TestTrimFileRefuses(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"a file that does not exist": filepath.Join(t.TempDir(), "crd.yaml"),
		"a file that is not YAML":    broken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := trimFile(file, nil); err == nil {
				t.Error("got no error, want one")
			}
		})
	}
}

func parsed(t *testing.T, content []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal(content, &object); err != nil {
		t.Fatalf("the file is not YAML: %v\n%s", err, content)
	}
	return object
}
