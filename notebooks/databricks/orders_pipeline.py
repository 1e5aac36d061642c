# Databricks notebook source
# MAGIC %md
# MAGIC # Orders, as a pipeline
# MAGIC
# MAGIC This source of a pipeline declares the tables, which the pipeline fills. `databricks.yml` beside this notebook defines
# MAGIC the pipeline, with the package in its environment (a pipeline's source installs nothing with `%pip`).

# COMMAND ----------

from pyspark import pipelines as dp

import spark_azqueue

try:
    spark.dataSource.register(spark_azqueue.AzQueueDataSource)
except Exception as error:
    if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
        raise

# COMMAND ----------

# A pipeline has no widgets: its configuration is Spark's.
account = spark.conf.get("shop.account")
queue = spark.conf.get("shop.queue")
credential = spark.conf.get("shop.service_credential")
scope = spark.conf.get("shop.scope")
log = spark.conf.get("shop.log")

if credential:
    azure = {"accountUrl": account, "credential": "databricks", "serviceCredential": credential}
else:
    azure = {"secret.connectionString": dbutils.secrets.get(scope=scope, key="queues")}

# COMMAND ----------


# A pipeline may repeat an update: with the log the result is still exactly once. A message that cannot be decoded
# goes to <queue>-poison, and does not fail each update.
@dp.table(name="orders_received", comment="Each message of the queue, as it came")
def orders_received():
    return (
        spark.readStream.format("azqueue")
        .options(**azure)
        .option("queue", queue)
        .option("writeAheadLog", log)
        .load()
        .select("message_id", "insertion_time", "body")
    )


# COMMAND ----------


# The name `orders` belongs to the table of the job.
@dp.table(name="orders_parsed", comment="What could be read of them")
def orders_parsed():
    parsed = "from_json(body, 'order_id BIGINT, quantity BIGINT') AS o"
    rows = spark.readStream.table("orders_received").selectExpr("message_id", parsed)
    return rows.where("o.order_id IS NOT NULL").select("message_id", "o.*")
