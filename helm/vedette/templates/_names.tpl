{{- define "vedette.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Begin of all names; room is left for what is appended within the 63 characters of a label. */}}
{{- define "vedette.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "vedette.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "vedette.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "vedette.agent.name" -}}
{{ include "vedette.fullname" . }}-agent
{{- end }}

{{- define "vedette.service.name" -}}
{{ include "vedette.fullname" . }}-service
{{- end }}

{{/* Labels that never change in the life of a release: (list root component). */}}
{{- define "vedette.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "vedette.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of every object: (list root component). */}}
{{- define "vedette.labels" -}}
{{- $root := index . 0 -}}
{{- $own := fromYaml (include "vedette.selector" .) -}}
{{- $own = merge $own (dict
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/version" ($root.Chart.AppVersion | replace "+" "_")
  "app.kubernetes.io/managed-by" $root.Release.Service
  "app.kubernetes.io/part-of" "vedette") -}}
{{- toYaml (merge $own $root.Values.commonLabels) }}
{{- end }}

{{- define "vedette.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "vedette.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "vedette.apiKeySecretName" -}}
{{- default (include "vedette.agent.name" .) .Values.apiKeySecret.name }}
{{- end }}

{{/* Reference of an image: (list root image-values default-name). */}}
{{- define "vedette.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := default $root.Values.image.registry $image.registry | trimSuffix "/" -}}
{{- $name := default (index . 2) $image.repository -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ $name }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default ($root.Chart.AppVersion | replace "+" "_") $image.tag }}{{ end }}
{{- end }}
