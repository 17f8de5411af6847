# The table of locks in one of the table formats, and the least permissions for each role.
#
#   module "locks" {
#     source = "…/packaging/aws"
#     name   = "locks"
#   }
#
# The v1 API of a service has a table of its own (--v1-table): use the module a second time, with name and format
# "lockservice". A service needs the policies holder and observer of each table, and operator if administrators are to
# force-release through it. holdfast doctor names missing actions.
terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "name" {
  description = "The name of the table."
  type        = string
  default     = "locks"
}

variable "format" {
  description = "The table format, if other lock clients use the table, too."
  type        = string
  default     = "holdfast"
  validation {
    condition     = contains(["holdfast", "awslabs", "dynamolock", "dlock", "lockservice", "single-table", "fail-open", "fail-closed"], var.format)
    error_message = "See docs/FORMATS.md for the formats."
  }
}

variable "tags" {
  description = "Tags of the table and the policies."
  type        = map(string)
  default     = {}
}

locals {
  layouts = {
    holdfast     = { key = "key", sort_key = null, ttl = "ttl" }
    awslabs      = { key = "key", sort_key = null, ttl = null }
    dynamolock   = { key = "key", sort_key = null, ttl = null }
    dlock        = { key = "key", sort_key = null, ttl = null }
    lockservice  = { key = "lockId", sort_key = null, ttl = "expiry" }
    single-table = { key = "PK", sort_key = "SK", ttl = "TTL" }
    fail-open    = { key = "key", sort_key = null, ttl = null }
    fail-closed  = { key = "key", sort_key = null, ttl = null }
  }
  layout = local.layouts[var.format]
  # What each role sends to the table: role => actions.
  actions = jsondecode(file("${path.module}/actions.json"))[var.format]
}

resource "aws_dynamodb_table" "locks" {
  name                        = var.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = local.layout.key
  range_key                   = local.layout.sort_key
  deletion_protection_enabled = true
  tags                        = var.tags

  dynamic "attribute" {
    for_each = compact([local.layout.key, local.layout.sort_key])
    content {
      name = attribute.value
      type = "S"
    }
  }

  dynamic "ttl" {
    for_each = compact([local.layout.ttl])
    content {
      attribute_name = ttl.value
      enabled        = true
    }
  }
}

resource "aws_iam_policy" "role" {
  for_each    = local.actions
  name_prefix = "${var.name}-${each.key}-"
  description = "holdfast: ${each.key} of the locks in the table ${var.name}"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = each.value
      Resource = aws_dynamodb_table.locks.arn
    }]
  })
}

data "aws_region" "current" {}

output "store" {
  description = "The value for --store."
  value       = "dynamodb://${aws_dynamodb_table.locks.name}?region=${data.aws_region.current.name}"
}

output "policies" {
  description = "The policies: holder, observer and operator."
  value       = { for role, policy in aws_iam_policy.role : role => policy.arn }
}
