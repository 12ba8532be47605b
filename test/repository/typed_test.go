package repository

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// TestUnsetStructsAreWrittenAsTheirDefault compares the JSON of unset structs with the defaults of the CRDs. A typed
// client writes every struct that is not a pointer, even if it is unset. If the default differs, the write changes the
// spec.
func TestUnsetStructsAreWrittenAsTheirDefault(t *testing.T) {
	t.Parallel()
	for file, spec := range map[string]any{
		"pytorch/config/crd/batch.tensorstack.dev_pytorchtrainingjobs.yaml": pytorchv1beta1.PyTorchTrainingJobSpec{},
		"tensorflow/config/crd/batch.tensorstack.dev_tensorflowtrainingjobs.yaml": tensorflowv1beta1.
			TensorFlowTrainingJobSpec{},
		"deepspeed/config/crd/batch.tensorstack.dev_deepspeedjobs.yaml": deepspeedv1beta1.DeepSpeedJobSpec{},
		"tensorboard/config/crd/tensorstack.dev_tensorboards.yaml":      tensorboardv1beta1.TensorBoardSpec{},
		"scheduler/config/crd/scheduler.tensorstack.dev_podgroups.yaml": schedulerv1beta1.PodGroupSpec{},
		"scheduler/config/crd/scheduler.tensorstack.dev_queues.yaml":    schedulerv1beta1.QueueSpec{},
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			manifest, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := yaml.UnmarshalStrict(manifest, &crd); err != nil {
				t.Fatal(err)
			}
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			if diff := cmp.Diff([]string(nil), unlikeTheirDefault(t, "spec", reflect.TypeOf(spec), schema)); diff != "" {
				t.Errorf("fields that Go writes with another value than the default (-want +got):\n%s", diff)
			}
		})
	}
}

// unlikeTheirDefault returns the paths of the fields of a type, and of its inner types, that do not get their default
// when they are unset. Either Go writes a value that is not the default, or Go omits a field whose default is {}.
func unlikeTheirDefault(
	t *testing.T, path string, of reflect.Type, schema apiextensionsv1.JSONSchemaProps,
) []string {
	t.Helper()
	switch {
	case of.Kind() == reflect.Pointer:
		return unlikeTheirDefault(t, path, of.Elem(), schema)
	case of.Kind() == reflect.Slice && schema.Items != nil:
		return unlikeTheirDefault(t, path+"[]", of.Elem(), *schema.Items.Schema)
	case of.Kind() == reflect.Map:
		return unlikeTheirDefault(t, path+"{}", of.Elem(), *schema.AdditionalProperties.Schema)
	case of.Kind() != reflect.Struct || schema.Type != "object":
		return nil
	}
	var unlike []string
	written, _ := zeroOf(t, of).(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(written)) {
		property := schema.Properties[name]
		isRequired := slices.Contains(schema.Required, name) ||
			of == reflect.TypeFor[corev1.PodTemplateSpec]() && name == "spec" // a CEL rule requires it
		if !isRequired && !reflect.DeepEqual(defaulted(t, written[name], property), defaultOf(t, property)) {
			unlike = append(unlike, path+"."+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		byDefault := schema.Properties[name].Default
		if _, ok := written[name]; !ok && byDefault != nil && string(byDefault.Raw) == "{}" {
			unlike = append(unlike, path+"."+name+", which Go omits")
		}
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous {
			unlike = append(unlike, unlikeTheirDefault(t, path, field.Type, schema)...)
		} else if property, ok := schema.Properties[name]; ok {
			unlike = append(unlike, unlikeTheirDefault(t, path+"."+name, field.Type, property)...)
		}
	}
	return unlike
}

// zeroOf returns the JSON that Go writes for the zero value of a type, without nulls, which the API server drops.
func zeroOf(t *testing.T, of reflect.Type) any {
	t.Helper()
	content, err := json.Marshal(reflect.Zero(of).Interface())
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, content)
}

// defaultOf returns the default of a schema, including the defaults of its properties. Nil means none.
func defaultOf(t *testing.T, schema apiextensionsv1.JSONSchemaProps) any {
	t.Helper()
	if schema.Default == nil {
		return nil
	}
	return defaulted(t, decoded(t, schema.Default.Raw), schema)
}

// defaulted returns a value with the defaults of its missing properties.
func defaulted(t *testing.T, value any, schema apiextensionsv1.JSONSchemaProps) any {
	t.Helper()
	if object, ok := value.(map[string]any); ok {
		for name, property := range schema.Properties {
			if inner := defaultOf(t, property); inner != nil && object[name] == nil {
				object[name] = inner
			}
		}
	}
	return value
}

func decoded(t *testing.T, content []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(content, &value); err != nil {
		t.Fatal(err)
	}
	dropNull(value)
	return value
}

func dropNull(value any) {
	if object, ok := value.(map[string]any); ok {
		maps.DeleteFunc(object, func(_ string, v any) bool { return v == nil })
		for _, v := range object {
			dropNull(v)
		}
	}
}
