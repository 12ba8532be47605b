package upgrade

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// Broken lists the changes of a CRD that break users of the previous version: names and versions that are gone,
// values that the new version rejects or drops, and different defaults. CEL rules are not compared, because their
// text does not show which objects they reject. The tests with stored objects cover these rules.
func Broken(before, after *apiextensionsv1.CustomResourceDefinition) []string {
	var broken []string
	changed := func(what string, before, after any) {
		if !reflect.DeepEqual(before, after) {
			broken = append(broken, fmt.Sprintf("%s was %v and is now %v", what, before, after))
		}
	}
	changed("group", before.Spec.Group, after.Spec.Group)
	changed("scope", before.Spec.Scope, after.Spec.Scope)
	changed("kind", before.Spec.Names.Kind, after.Spec.Names.Kind)
	changed("plural", before.Spec.Names.Plural, after.Spec.Names.Plural)
	broken = append(broken, missing("shortName", before.Spec.Names.ShortNames, after.Spec.Names.ShortNames)...)
	broken = append(broken, missing("category", before.Spec.Names.Categories, after.Spec.Names.Categories)...)
	for _, old := range before.Spec.Versions {
		i := slices.IndexFunc(after.Spec.Versions,
			func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == old.Name })
		switch {
		case !old.Served:
		case i < 0 || !after.Spec.Versions[i].Served:
			broken = append(broken, fmt.Sprintf("version %s is no longer served", old.Name))
		default:
			changed(old.Name+": subresources", subresources(old), subresources(after.Spec.Versions[i]))
			broken = append(broken,
				brokenSchema(old.Name+": ", old.Schema.OpenAPIV3Schema, after.Spec.Versions[i].Schema.OpenAPIV3Schema)...)
		}
	}
	slices.Sort(broken)
	return broken
}

// subresources returns a text that describes the subresources, with the paths of the scale subresource.
func subresources(version apiextensionsv1.CustomResourceDefinitionVersion) string {
	if version.Subresources == nil {
		return "none"
	}
	var found []string
	if version.Subresources.Status != nil {
		found = append(found, "status")
	}
	if s := version.Subresources.Scale; s != nil {
		found = append(found,
			fmt.Sprintf("scale %s %s %s", s.SpecReplicasPath, s.StatusReplicasPath, ptr.Deref(s.LabelSelectorPath, "")))
	}
	return strings.Join(found, ", ")
}

// brokenSchema lists the differences between two schemas that break users: values that the previous schema accepts
// and the new schema rejects or drops, and defaults that differ.
func brokenSchema(path string, before, after *apiextensionsv1.JSONSchemaProps) []string {
	var broken []string
	report := func(format string, args ...any) {
		broken = append(broken, strings.TrimSuffix(path, ".")+" "+fmt.Sprintf(format, args...))
	}
	if before.Type != after.Type || before.XIntOrString != after.XIntOrString {
		report("was of type %q and is now of type %q", typeOf(before), typeOf(after))
		return broken
	}
	for _, keyword := range []struct {
		name          string
		before, after any
	}{
		{"format", before.Format, after.Format},
		{"pattern", before.Pattern, after.Pattern},
		{"multipleOf", before.MultipleOf, after.MultipleOf},
		{"x-kubernetes-list-type", before.XListType, after.XListType},
		{"x-kubernetes-list-map-keys", before.XListMapKeys, after.XListMapKeys},
		{"x-kubernetes-map-type", before.XMapType, after.XMapType},
	} {
		if !reflect.DeepEqual(keyword.before, keyword.after) {
			report("has a different %s", keyword.name)
		}
	}
	// Users do not write the status, so a new default of the whole status does not affect them.
	isNewStatus := before.Default == nil && strings.HasSuffix(path, ": status.")
	if !isNewStatus && raw(before.Default) != raw(after.Default) {
		report("has a different default")
	}
	for _, finding := range []string{
		tightened("minimum", before.Minimum, after.Minimum, 1),
		tightened("maximum", before.Maximum, after.Maximum, -1),
		tightened("minLength", before.MinLength, after.MinLength, 1),
		tightened("maxLength", before.MaxLength, after.MaxLength, -1),
		tightened("minItems", before.MinItems, after.MinItems, 1),
		tightened("maxItems", before.MaxItems, after.MaxItems, -1),
		tightened("minProperties", before.MinProperties, after.MinProperties, 1),
		tightened("maxProperties", before.MaxProperties, after.MaxProperties, -1),
	} {
		if finding != "" {
			report("%s", finding)
		}
	}
	for _, limit := range []struct {
		name    string
		tighter bool
	}{
		{"exclusiveMinimum", after.ExclusiveMinimum && !before.ExclusiveMinimum},
		{"exclusiveMaximum", after.ExclusiveMaximum && !before.ExclusiveMaximum},
		{"uniqueItems", after.UniqueItems && !before.UniqueItems},
		{"nullable", before.Nullable && !after.Nullable},
		{
			"x-kubernetes-preserve-unknown-fields",
			ptr.Deref(before.XPreserveUnknownFields, false) && !ptr.Deref(after.XPreserveUnknownFields, false),
		},
	} {
		if limit.tighter {
			report("has a tighter %s", limit.name)
		}
	}
	if len(before.Enum) == 0 && len(after.Enum) > 0 {
		report("accepts only some values now")
	}
	for _, value := range before.Enum {
		if len(after.Enum) > 0 &&
			!slices.ContainsFunc(after.Enum, func(v apiextensionsv1.JSON) bool { return string(v.Raw) == string(value.Raw) }) {
			report("no longer accepts %s", value.Raw)
		}
	}
	for _, name := range after.Required {
		if !slices.Contains(before.Required, name) && after.Properties[name].Default == nil {
			report("now requires %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		old := before.Properties[name]
		if property, ok := after.Properties[name]; ok {
			broken = append(broken, brokenSchema(path+name+".", &old, &property)...)
		} else if !ptr.Deref(after.XPreserveUnknownFields, false) {
			report("no longer has %s", name)
		}
	}
	broken = append(broken, brokenItems(strings.TrimSuffix(path, ".")+"[].", items(before), items(after))...)
	return append(broken, brokenItems(strings.TrimSuffix(path, ".")+"{}.", values(before), values(after))...)
}

func brokenItems(path string, before, after *apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case before == nil:
		return nil
	case after == nil:
		return []string{strings.TrimSuffix(path, ".") + " no longer has a schema"}
	default:
		return brokenSchema(path, before, after)
	}
}

func items(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.Items == nil {
		return nil
	}
	return schema.Items.Schema
}

func values(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.AdditionalProperties == nil {
		return nil
	}
	return schema.AdditionalProperties.Schema
}

// tightened returns a text about a limit that is new or tighter than before, or "" if the limit is not tighter. The
// direction is 1 for a lower limit and -1 for an upper limit.
func tightened[N int64 | float64](name string, before, after *N, direction N) string {
	switch {
	case after == nil:
		return ""
	case before == nil:
		return "has a new " + name
	case (*after-*before)*direction > 0:
		return "has a tighter " + name
	default:
		return ""
	}
}

func raw(value *apiextensionsv1.JSON) string {
	if value == nil {
		return ""
	}
	return string(value.Raw)
}

func typeOf(schema *apiextensionsv1.JSONSchemaProps) string {
	if schema.XIntOrString {
		return "int-or-string"
	}
	return schema.Type
}

// missing returns a text about each name of the first list that is not in the second list.
func missing(what string, before, after []string) []string {
	var lost []string
	for _, name := range before {
		if !slices.Contains(after, name) {
			lost = append(lost, fmt.Sprintf("%s %s is gone", what, name))
		}
	}
	return lost
}
