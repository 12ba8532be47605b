// Package crd validates custom objects against their CustomResourceDefinition without an API server. It uses the
// packages of the API server, so it returns the same errors.
//
// The controllers do not import this package.
package crd

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/operation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"sigs.k8s.io/yaml"
)

// Definition is a CustomResourceDefinition. It validates objects as an API server with strict field validation does.
// It sets the defaults of the objects, and evaluates the CEL rules of the schema.
type Definition struct {
	kind       schema.GroupVersionKind
	namespaced bool
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
	// scaled is the path of the field that the scale subresource sets. It is empty if there is no scale subresource.
	scaled string
}

// The API server generates a name from the first maxGenerateName bytes of a generateName and five random characters.
// generatedSuffix stands for the random characters.
const (
	maxGenerateName = 58
	generatedSuffix = "xxxxx"
)

// Parse returns the definition in the manifest of a CustomResourceDefinition, which must have exactly one version.
func Parse(manifest []byte) (*Definition, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(manifest, &definition); err != nil {
		return nil, err
	}
	if n := len(definition.Spec.Versions); n != 1 {
		return nil, fmt.Errorf("the CustomResourceDefinition %q has %d versions, want 1", definition.Name, n)
	}
	version := definition.Spec.Versions[0]
	var props apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema,
		&props, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", definition.Name, err)
	}
	d := &Definition{
		kind: schema.GroupVersionKind{
			Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind,
		},
		namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}
	if s := version.Subresources; s != nil && s.Scale != nil {
		d.scaled = s.Scale.SpecReplicasPath
	}
	if d.structural, err = structuralschema.NewStructural(&props); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", definition.Name, err)
	}
	if d.schema, _, err = validation.NewSchemaValidator(&props); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", definition.Name, err)
	}
	d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	return d, nil
}

// Schema returns the schema of the objects. Callers must not change it.
func (d *Definition) Schema() *structuralschema.Structural { return d.structural }

// Create reads a new object from a document in YAML or JSON. Like Admit, it sets the defaults, generates the name if
// the object has a generateName, and removes the status. It returns the object with its namespace. If the API server
// would reject a request to create the object in the namespace, Create returns the error of the API server.
func (d *Definition) Create(ctx context.Context, namespace string, document []byte) (map[string]any, error) {
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, unstructuredscheme.NewUnstructuredCreator(),
		unstructuredscheme.NewUnstructuredObjectTyper(),
		json.SerializerOptions{Yaml: !utilyaml.IsJSONBuffer(document), Strict: true})
	object := &unstructured.Unstructured{}
	_, _, err := decoder.Decode(document, &d.kind, object)
	var problems []error
	if strict, isStrict := runtime.AsStrictDecodingError(err); isStrict {
		problems = strict.Errors()
	} else if err != nil {
		return nil, d.cannotHandle(err)
	}
	if err := d.decode(object.Object, problems); err != nil {
		return nil, err
	}
	switch object.GetNamespace() {
	case namespace:
	case "":
		object.SetNamespace(namespace)
	default:
		return nil, apierrors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	}
	return object.Object, d.create(ctx, object.Object)
}

// Admit sets the defaults of a new object in place. It generates the name if the object has a generateName, and
// removes the status. If the API server would reject the object, Admit returns the error of the API server.
func (d *Definition) Admit(ctx context.Context, object map[string]any) error {
	if err := d.decode(object, nil); err != nil {
		return err
	}
	return d.create(ctx, object)
}

// decode sets the defaults of an object in place. The argument problems has the problems that were found while the
// document of the object was parsed. If there are any, or if the object has unknown fields, decode returns the error
// of the API server.
func (d *Definition) decode(object map[string]any, problems []error) error {
	unknown, err := d.coerce(object)
	if err != nil {
		return d.cannotHandle(err)
	}
	for _, name := range unknown {
		problems = append(problems, fmt.Errorf(`unknown field "%s"`, name))
	}
	if len(problems) > 0 {
		return d.cannotHandle(runtime.NewStrictDecodingError(problems))
	}
	return nil
}

// create removes the status of a decoded object, generates its name if necessary, and validates the object.
func (d *Definition) create(ctx context.Context, object map[string]any) error {
	delete(object, "status")
	meta, _, err := objectmeta.GetObjectMeta(object, false)
	if err != nil {
		return err
	}
	if meta == nil {
		meta = &metav1.ObjectMeta{}
	}
	if meta.Name == "" && meta.GenerateName != "" {
		meta.Name = meta.GenerateName[:min(len(meta.GenerateName), maxGenerateName)] + generatedSuffix
		if err := objectmeta.SetObjectMeta(object, meta); err != nil {
			return err
		}
	}
	at := field.NewPath("metadata")
	errs := metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, meta, nil, d.namespaced,
		metavalidation.NameIsDNSSubdomain, at, utilfeature.DefaultFeatureGate.Enabled(features.DeclarativeValidationBeta))
	if errs = d.validate(ctx, object, errs); len(errs) > 0 {
		return apierrors.NewInvalid(d.kind.GroupKind(), meta.Name, errs)
	}
	return nil
}

// cannotHandle returns the error of an API server that cannot decode a document.
func (d *Definition) cannotHandle(err error) error {
	return apierrors.NewBadRequest(
		fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", d.kind.Kind, d.kind.Version, d.kind.Kind, err))
}

// CheckStatus returns an error if the API server would reject the status of an object. It also returns an error if
// the object has unknown fields. It ignores all other errors outside the status: the Go types omit empty values, so
// required fields of the spec can be missing.
func (d *Definition) CheckStatus(ctx context.Context, object map[string]any) error {
	unknown, err := d.coerce(object)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return fmt.Errorf("the object has unknown fields: %q", unknown)
	}
	errs := d.validate(ctx, object, nil)
	ofTheStatus := slices.DeleteFunc(errs, func(err *field.Error) bool { return !strings.HasPrefix(err.Field, "status") })
	return ofTheStatus.ToAggregate()
}

// coerce decodes an object as the API server does. It sets defaults and removes nulls and unknown fields. It returns
// the paths of the unknown fields.
func (d *Definition) coerce(object map[string]any) (unknown []string, err error) {
	meta, hasMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(object,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	track := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(object, d.structural, true, track)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.structural)
	malformed, unknownEmbedded := objectmeta.CoerceWithOptions(nil, object, d.structural, false,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if malformed != nil {
		return nil, malformed
	}
	if hasMeta {
		if err := objectmeta.SetObjectMeta(object, meta); err != nil {
			return nil, err
		}
	}
	defaulting.Default(object, d.structural)
	return append(unknown, unknownEmbedded...), nil
}

// validate returns the problems of an object in the order of the API server. The argument ofMeta has the problems of
// the metadata, which come first.
func (d *Definition) validate(ctx context.Context, object map[string]any, ofMeta field.ErrorList) field.ErrorList {
	errs := slices.Concat(ofMeta, validation.ValidateCustomResource(nil, object, d.schema))
	errs = append(errs, d.validateScale(object)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, object, d.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if slices.ContainsFunc(errs, preventsRules) {
		return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was "+
			"invalid; correct the existing errors to complete validation"))
	}
	broken, _ := d.rules.Validate(ctx, nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

// validateScale returns the problems of the field that the scale subresource sets.
func (d *Definition) validateScale(object map[string]any) field.ErrorList {
	if d.scaled == "" {
		return nil
	}
	at := field.NewPath(d.scaled)
	switch n, _, err := unstructured.NestedInt64(object, strings.Split(strings.TrimPrefix(d.scaled, "."), ".")...); {
	case err != nil:
		return field.ErrorList{field.Invalid(at, n, err.Error())}
	case n < 0:
		return field.ErrorList{field.Invalid(at, n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	default:
		return nil
	}
}

// preventsRules reports whether a problem of an object makes the API server skip the CEL rules. The rules assume that
// all values have the types of the schema and are within its limits.
func preventsRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
		field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}
