package crd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// boats is a CustomResourceDefinition.
const boats = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: boats.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Boat, plural: boats}
  versions:
    - name: v1
      served: true
      storage: true
      subresources:
        status: {}
        scale: {specReplicasPath: .spec.sails, statusReplicasPath: .status.sails}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            metadata: {type: object}
            spec:
              type: object
              required: [length]
              properties:
                color: {type: string, enum: [red, blue], default: red}
                length: {type: integer, maximum: 100}
                sails: {type: integer}
                crew:
                  type: array
                  maxItems: 2
                  items: {type: string}
              x-kubernetes-validations:
                - rule: "!has(self.crew) || self.length > 5"
                  message: a boat with a crew needs a length of more than 5
            status:
              type: object
              properties:
                sails: {type: integer}
`

func parse(t *testing.T, manifest string) *Definition {
	t.Helper()
	d, err := Parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCreate(t *testing.T) {
	const meta = "apiVersion: example.com/v1\nkind: Boat\n"
	for name, tc := range map[string]struct {
		document string
		want     map[string]any
		// wantErr is a part of the error of the API server. Empty means no error.
		wantErr string
	}{
		"an object gets defaults and its namespace, and loses its status": {
			document: meta + "metadata: {name: sun}\nspec: {length: 3}\nstatus: {sails: 1}",
			want: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "sun", "namespace": "ns"},
				"spec": map[string]any{"length": int64(3), "color": "red"},
			},
		},
		"a JSON object is valid": {
			document: `{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "sun"}, "spec": {"length": 3}}`,
			want: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "sun", "namespace": "ns"},
				"spec": map[string]any{"length": int64(3), "color": "red"},
			},
		},
		"a null is removed, so that the default applies": {
			document: meta + "metadata: {name: sun, namespace: ns}\nspec: {length: 3, color: null, crew: null}",
			want: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "sun", "namespace": "ns"},
				"spec": map[string]any{"length": int64(3), "color": "red"},
			},
		},
		"a name is generated": {
			document: meta + "metadata: {generateName: sun-}\nspec: {length: 3}",
			want: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Boat",
				"metadata": map[string]any{"generateName": "sun-", "name": "sun-xxxxx", "namespace": "ns"},
				"spec":     map[string]any{"length": int64(3), "color": "red"},
			},
		},
		"unknown fields are rejected": {
			document: meta + "metadata: {name: sun, nam: moon}\nspec: {length: 3, oars: 2}",
			wantErr: `Boat in version "v1" cannot be handled as a Boat: strict decoding error: ` +
				`unknown field "metadata.nam", unknown field "spec.oars"`,
		},
		"a field that appears twice is rejected in YAML": {
			document: meta + "metadata: {name: sun}\nspec:\n  length: 3\n  length: 4",
			wantErr: `Boat in version "v1" cannot be handled as a Boat: strict decoding error: ` +
				`yaml: unmarshal errors:` + "\n" + `  line 6: key "length" already set in map`,
		},
		"a field that appears twice is rejected in JSON": {
			document: `{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "sun"}, "spec": {"length": 3, "length": 4}}`,
			wantErr: `Boat in version "v1" cannot be handled as a Boat: strict decoding error: ` +
				`duplicate field "spec.length"`,
		},
		"malformed metadata is rejected": {
			document: meta + "metadata: {name: sun, labels: 3}\nspec: {length: 3}",
			wantErr: `Boat in version "v1" cannot be handled as a Boat: ` +
				`json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string`,
		},
		"another namespace is rejected": {
			document: meta + "metadata: {name: sun, namespace: other}\nspec: {length: 3}",
			wantErr:  "the namespace of the provided object does not match the namespace sent on the request",
		},
		"an object without a name is rejected": {
			document: meta + "spec: {length: 3}",
			wantErr: `Boat.example.com "" is invalid: [metadata.name: Required value: name or generateName is required, ` +
				`<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; ` +
				`correct the existing errors to complete validation]`,
		},
		"CEL rules are evaluated": {
			document: meta + "metadata: {name: sun}\nspec: {length: 3, crew: [ann]}",
			wantErr: `Boat.example.com "sun" is invalid: spec: Invalid value: a boat with a crew needs a length of more ` +
				`than 5`,
		},
		"CEL rules are also evaluated for an object with a value out of range": {
			document: meta + "metadata: {name: sun}\nspec: {length: 3, crew: [ann], sails: -1}",
			wantErr: `Boat.example.com "sun" is invalid: [.spec.sails: Invalid value: -1: should be a non-negative integer, ` +
				`spec: Invalid value: a boat with a crew needs a length of more than 5]`,
		},
		"CEL rules are not evaluated if the schema does not allow it": {
			document: meta + "metadata: {name: Sun}\nspec: {length: 3, color: green, crew: [ann, bob, cid], sails: 3000000000}",
			wantErr:  "some validation rules were not checked because the object was invalid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, boats).Create(t.Context(), "ns", []byte(tc.document))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("the error is\n%v, want\n%s", err, tc.wantErr)
				}
				if !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
					t.Errorf("the error is a %T, want one of the API server", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		object  map[string]any
		wantErr string
	}{
		"other fields do not matter": {object: map[string]any{"status": map[string]any{"sails": int64(1)}}},
		"a wrong type is rejected": {
			object:  map[string]any{"status": map[string]any{"sails": "one"}},
			wantErr: `status.sails: Invalid value: "string": status.sails in body must be of type integer: "string"`,
		},
		"an unknown field is rejected": {
			object: map[string]any{"status": map[string]any{"oars": int64(1)}}, wantErr: `unknown fields: ["status.oars"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := parse(t, boats).CheckStatus(t.Context(), tc.object)
			switch {
			case tc.wantErr == "" && err != nil:
				t.Error(err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("the error is %v, want %s", err, tc.wantErr)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ manifest, wantErr string }{
		"an unknown field is rejected":  {"spec: {grop: example.com}", `unknown field "grop"`},
		"several versions are rejected": {"spec: {versions: [{name: v1}, {name: v2}]}", "has 2 versions, want 1"},
		"an invalid schema is rejected": {
			"spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object, $ref: other}}}]}", "$ref",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(tc.manifest)); err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("the error is %v, want %s", err, tc.wantErr)
			}
		})
	}
}
