package installed

import (
	"reflect"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// missingFields returns the paths of the fields that the Go type of an object has, but the schema of its kind does
// not have. It ignores the fields of Kubernetes types, such as pod templates, since their versions do not depend on
// this project.
func missingFields(object any, definition *spec.Schema) []string {
	return missingIn(reflect.TypeOf(object), definition, "")
}

func missingIn(of reflect.Type, definition *spec.Schema, path string) []string {
	switch of.Kind() {
	case reflect.Pointer:
		return missingIn(of.Elem(), definition, path)
	case reflect.Slice:
		if definition.Items != nil && definition.Items.Schema != nil {
			return missingIn(of.Elem(), definition.Items.Schema, path)
		}
		return nil
	case reflect.Map:
		if definition.AdditionalProperties != nil && definition.AdditionalProperties.Schema != nil {
			return missingIn(of.Elem(), definition.AdditionalProperties.Schema, path)
		}
		return nil
	case reflect.Struct:
	default:
		return nil
	}
	// A schema without properties accepts every field.
	if !strings.HasPrefix(of.PkgPath(), "tensorstack.dev/jobs/") || len(definition.Properties) == 0 {
		return nil
	}
	var missing []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property, ok := definition.Properties[name]
		switch at := strings.TrimPrefix(path+"."+name, "."); {
		case name == "-":
		case name == "": // an embedded struct
			missing = append(missing, missingIn(field.Type, definition, path)...)
		case !ok:
			missing = append(missing, at)
		default:
			missing = append(missing, missingIn(field.Type, &property, at)...)
		}
	}
	return missing
}
