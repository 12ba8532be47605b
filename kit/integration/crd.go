package integration

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// crdFile is a pattern for the path of the CRD manifest of a kind, relative to the folder with its configuration.
const crdFile = "crd/*_*.yaml"

// DescribeCRD defines the specs of the shipped CRD.
func DescribeCRD() bool {
	return Describe("The CRD", func() {
		var manifest []byte
		BeforeEach(func() {
			files, err := filepath.Glob(filepath.Join(config, crdFile))
			Expect(err).NotTo(HaveOccurred())
			Expect(files).To(HaveLen(1))
			manifest, err = os.ReadFile(files[0])
			Expect(err).NotTo(HaveOccurred())
		})

		It("fits into the annotation that kubectl apply writes", func() {
			Expect(len(asJSON(string(manifest)))).To(BeNumerically("<", 200<<10))
		})

		It("limits every list, map and string of the spec", func() {
			var crd apiextensionsv1.CustomResourceDefinition
			Expect(yaml.Unmarshal(manifest, &crd)).To(Succeed())
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			Expect(unlimited("spec", spec)).To(BeEmpty())
		})

		// If the CRD listed the valid words of a status field, an old CRD would reject the status writes of a new
		// controller that uses more words.
		It("accepts new words in the status", func() {
			var crd apiextensionsv1.CustomResourceDefinition
			Expect(yaml.Unmarshal(manifest, &crd)).To(Succeed())
			Expect(enums("status", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"])).To(BeEmpty())
		})

		It("describes every field that this project defines", func() {
			var crd apiextensionsv1.CustomResourceDefinition
			Expect(yaml.Unmarshal(manifest, &crd)).To(Succeed())
			Expect(crd.Spec.Versions).To(HaveLen(1))
			Expect(undescribed("", *crd.Spec.Versions[0].Schema.OpenAPIV3Schema)).To(BeEmpty())
		})
	})
}

// enums returns the fields at or below a schema that accept only some words. It leaves out the status of conditions,
// whose words are fixed.
func enums(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	if len(schema.Enum) > 0 && path != "status.conditions[].status" {
		found = append(found, path)
	}
	for name, property := range schema.Properties {
		found = append(found, enums(path+"."+name, property)...)
	}
	if schema.Items != nil {
		found = append(found, enums(path+"[]", *schema.Items.Schema)...)
	}
	return found
}

// undescribed returns the fields below a schema that have no description. It skips embedded core types.
func undescribed(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	for name, property := range schema.Properties {
		switch name {
		case "template", "resources", "metadata", "conditions":
			continue
		}
		if property.Description == "" {
			found = append(found, path+"."+name)
		}
		found = append(found, undescribed(path+"."+name, property)...)
		if property.Items != nil {
			found = append(found, undescribed(path+"."+name+"[]", *property.Items.Schema)...)
		}
	}
	return found
}

// unlimited returns the lists, maps and strings at or below a schema that have no limit.
func unlimited(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	isString := schema.Type == "string" && len(schema.Enum) == 0 || schema.XIntOrString
	if isString && schema.MaxLength == nil || schema.Type == "array" && schema.MaxItems == nil {
		found = append(found, path)
	}
	if schema.Items != nil {
		found = append(found, unlimited(path+"[]", *schema.Items.Schema)...)
	}
	if schema.AdditionalProperties != nil {
		if schema.MaxProperties == nil {
			found = append(found, path)
		}
		found = append(found, unlimited(path+"{}", *schema.AdditionalProperties.Schema)...)
	}
	for name, property := range schema.Properties {
		found = append(found, unlimited(path+"."+name, property)...)
	}
	return found
}
